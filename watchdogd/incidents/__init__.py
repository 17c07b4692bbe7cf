"""What becomes of incidents: one pure function from a book, results and orders to the next book."""

from watchdogd.incidents.resuming import resumed
from watchdogd.incidents.sitting import advance

__all__ = ["advance", "resumed"]
