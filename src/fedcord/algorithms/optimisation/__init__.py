"""Methods that change how clients descend, or how the server moves by what they send."""
