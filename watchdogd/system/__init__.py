"""The machine: clocks, files, commands, numbers. Nothing here knows what a watchdog is."""
