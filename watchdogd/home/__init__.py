"""Home, the folder of one watchdogd: its layout, switches, inbox, lease and marks, and whose files count."""
