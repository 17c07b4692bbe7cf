"""Forms of logs that whoever tunes the judgement may look at."""
