"""History of what was observed, decided and said: tables, migrations, retention, SQLite on network disks."""

"""`[history] url` where config.toml says nothing."""
