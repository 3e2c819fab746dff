"""One module per contender; each is run in a fresh interpreter of its own and prints its costs."""
