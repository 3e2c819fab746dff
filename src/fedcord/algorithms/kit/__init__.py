"""What families of algorithms share: local training, exchange of models, outputs of networks."""
