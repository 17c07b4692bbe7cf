"""Home, the folder of one watchdogd: layout, switches, inbox, lease, markers, and trust in files."""
