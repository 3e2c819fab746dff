"""Tables with named columns: how they are read, added up over clients, and made into numbers."""
