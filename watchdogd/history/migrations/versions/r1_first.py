"""First schema. schema.py creates it in a new database, so this step does nothing."""

revision = "1"
down_revision = None


def upgrade() -> None:
    """Do nothing."""
