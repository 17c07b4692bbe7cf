"""Faults injected into a real training: is the right rank named in the first message, and after how long."""
