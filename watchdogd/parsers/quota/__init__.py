"""Quota tools as values, one file a tool."""
