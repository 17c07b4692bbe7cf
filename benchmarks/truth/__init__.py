"""How often log_staleness is right: lives of trainings as their logs tell them, healthy and broken."""
