"""`watchdogd doctor`: tries everything that the configuration needs; what is wrong comes with its fix."""
