"""Real servers on loopback for what watchdogd sends: SMTP, Slack, plain HTTP."""
