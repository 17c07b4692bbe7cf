"""Batch systems (Slurm, PBS) as they are asked: queue, accounting and nodes, and their answers as values."""
