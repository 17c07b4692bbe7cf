"""Notifications: messages, the channels that send them, and the plan of their delivery."""
