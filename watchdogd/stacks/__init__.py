"""Python stacks of a run's processes: taken, folded, put in words."""
