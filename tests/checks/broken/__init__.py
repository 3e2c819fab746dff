"""Algorithms that are each wrong in one way, to show that every check can fail."""
