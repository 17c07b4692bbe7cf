"""Verbs around one job: some stand in its job script, some look into it while it runs."""
