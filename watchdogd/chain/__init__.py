"""The chain of Slurm jobs in which the daemon lives: each link submits the next one."""
