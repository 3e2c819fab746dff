"""What a finished run is for: its model, loaded, asked and exported."""
