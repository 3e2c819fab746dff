"""The same configuration and the same algorithm across real sites, by Flower.

Nothing outside this package imports flwr, and nothing in it decides what clients do: it is one more
way for bytes to reach a node, the processes at both ends, and the files that start them.
"""
