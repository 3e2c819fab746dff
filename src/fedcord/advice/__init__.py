"""Which method to try first, from what the committed studies measured; trains nothing."""
