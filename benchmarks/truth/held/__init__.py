"""Forms of logs, written by others from other sources, that nobody tunes on: what counts is what they say."""
