"""Federated learning when clients' data disagree."""

__version__ = "0.1.0"
