"""One-shot methods to compare with: clients train once with cross-entropy, the server fuses."""
