"""A look at a job's nodes before its training starts."""
