"""Quota tools' output as values, one file a tool."""
