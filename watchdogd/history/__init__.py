"""What was observed, decided and said: tables, migrations, retention, and SQLite as network disks need it."""

"""`[history] url` where config.toml says nothing."""
