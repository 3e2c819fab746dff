"""Methods whose clients exchange one vector per class, with or without their models."""
