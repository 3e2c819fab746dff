"""A model of its own for every client, by gradients."""
