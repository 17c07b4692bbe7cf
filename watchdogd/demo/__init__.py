"""`watchdogd demo`: a small training, a small disk and a real daemon in a temporary home."""
