"""History of observations, incidents and messages: tables, migrations, retention, SQLite on network disks."""
