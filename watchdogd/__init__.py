"""watchdogd: the watchdog for long trainings on shared clusters."""

__version__ = "0.1.0"
