"""The first schema. A fresh database is made whole by schema.py, so this step has nothing to do."""

revision = "1"
down_revision = None


def upgrade() -> None:
    """Leave the database as it is."""
