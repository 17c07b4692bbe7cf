"""The machine: clocks, files, commands, numbers. Nothing here depends on the rest of watchdogd."""
