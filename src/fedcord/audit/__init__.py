"""What shared models and sums tell about who is in them: membership inference on finished runs."""
