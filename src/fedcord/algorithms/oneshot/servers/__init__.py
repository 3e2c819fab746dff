"""How a one-shot server fuses what clients sent: one aggregator per file, chosen by `Server`."""
