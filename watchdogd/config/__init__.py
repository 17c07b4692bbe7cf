"""config.toml as values: durations in seconds, sizes in bytes, absolute paths (relative to home)."""
