"""Alembic's environment: runs the migrations in the transaction given by schema.py."""

from alembic import context

from watchdogd.history.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters a table by copying it
)
context.run_migrations()
