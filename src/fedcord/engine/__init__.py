"""The round loop and the ways to reach clients."""
