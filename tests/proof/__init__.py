"""The proof: one checker over histories, faults of every kind, and the page that `make prove` writes."""
