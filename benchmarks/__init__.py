"""What watchdogd costs, measured beside those that do the like. `python -m benchmarks` prints one table."""
