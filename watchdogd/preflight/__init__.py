"""Preflight: tests of a job's nodes before its training starts."""
