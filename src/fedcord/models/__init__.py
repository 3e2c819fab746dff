"""Networks, all of the form `fedcord.core.task.Network`, chosen by name through `registry`."""
