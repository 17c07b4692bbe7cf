"""Alembic's migrations: a file for each step in versions/, run by schema.py in one transaction."""
