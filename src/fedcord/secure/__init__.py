"""Secure aggregation: the server reads the sum of clients' messages and none of them.

The protocol of Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine
Learning", CCS 2017, in its form against a server that follows it: `Site` is a client's half,
`Tally` the server's. Neither knows of networks, tensors or algorithms.
"""
