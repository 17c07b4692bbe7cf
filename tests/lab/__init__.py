"""The parts of which `tests.cluster` builds its Slurm."""
