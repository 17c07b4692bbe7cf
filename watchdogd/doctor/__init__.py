"""`watchdogd doctor`: tests everything that the configuration needs; each fault has its fix."""
