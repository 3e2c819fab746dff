"""Ways to deal one data set out to clients, one per file; `fedcord.data.partition` names them."""
