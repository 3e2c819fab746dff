"""Feature maps that are never trained, one per file."""
