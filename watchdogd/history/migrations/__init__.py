"""Alembic's migrations: one file a step in versions/, run by schema.py within one transaction."""
