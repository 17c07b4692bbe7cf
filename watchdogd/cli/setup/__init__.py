"""Verbs that set watchdogd up: its home, its configuration, what it watches, what it looks like at work."""
