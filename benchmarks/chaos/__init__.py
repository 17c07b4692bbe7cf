"""A campaign against watchdogd itself: many faults at once, in any order (docs/reliability.md)."""
