"""Built-in channel types, one file each, with the name of their `type` in config.toml."""
