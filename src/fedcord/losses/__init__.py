"""Loss functions, one per file."""
