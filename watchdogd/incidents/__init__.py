"""Incidents: when one opens, is confirmed, is reminded of and ends, and its first line in words."""
