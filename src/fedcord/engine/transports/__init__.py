"""Ways to reach nodes: each carries requests there and replies back, and knows nothing else."""
