"""Numbers that say how good answers are, computed from sums that add up over places."""
