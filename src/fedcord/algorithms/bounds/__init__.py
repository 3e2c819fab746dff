"""What federated methods lie between: all data in one place, and everybody alone."""
