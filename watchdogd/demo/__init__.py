"""`watchdogd demo`: a small training, a small disk and a real daemon, played on a stage that is removed."""
