"""What a run's log shows of its progress, found from the lines themselves: no format has to be known."""
