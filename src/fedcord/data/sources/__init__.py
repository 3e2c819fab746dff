"""One file per family of data sets: where its files are, how they are read, what they mean."""
