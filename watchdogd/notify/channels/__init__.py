"""The types of channels that watchdogd brings: one file each, named as `type` in config.toml names it."""
