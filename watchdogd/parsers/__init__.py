"""Foreign text as values: pure, tested on real outputs."""
