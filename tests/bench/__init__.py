"""Measured speeds: `python -m tests.bench [NAME ...]`."""
