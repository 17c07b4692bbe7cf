"""The daemon: rounds and their scheduler, the workers that run checks, and what watches watchdogd itself."""
