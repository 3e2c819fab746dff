"""Closed-form methods: clients send sums over their samples, the server solves once."""
