"""Verbs around one job: some run in its job script, others inspect it while it runs."""
