"""What watchdogd does about an incident: evidence, who holds the run up, and actions."""
