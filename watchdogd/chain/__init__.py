"""Chain of Slurm jobs in which the daemon runs: each link submits the next one."""
