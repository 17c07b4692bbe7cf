"""Verbs that set watchdogd up: its home, its configuration, what it watches; the demo."""
