"""Notifications: messages, the channels that send them, and the plan by which each gets there."""
