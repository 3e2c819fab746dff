"""Methods whose clients contrast representations and whose server averages models."""
