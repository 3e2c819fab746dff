"""What runs where data is: a site's own file, its data, and the node that answers for it."""
