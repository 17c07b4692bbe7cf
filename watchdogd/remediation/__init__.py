"""Reactions to an incident: evidence, who holds the run up, and actions."""
