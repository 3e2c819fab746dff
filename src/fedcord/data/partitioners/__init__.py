"""Ways to distribute one data set to clients, one per file; `fedcord.data.partition` names them."""
