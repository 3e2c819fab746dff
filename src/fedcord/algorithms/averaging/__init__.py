"""Methods whose clients send models that the server averages."""
