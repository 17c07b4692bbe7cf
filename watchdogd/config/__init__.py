"""config.toml as values: durations in seconds, sizes in bytes, paths absolute (or relative to home)."""
