"""config.toml as values. Durations are seconds, sizes bytes, paths absolute (relative ones hang on home)."""
