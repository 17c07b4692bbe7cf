"""Batch systems (Slurm, PBS, plain processes): queue, accounting and nodes as values."""
