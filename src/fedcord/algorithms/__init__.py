"""Federated algorithms; the table of names is in `registry`."""
