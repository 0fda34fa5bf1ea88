"""Profile: Graph -> Profile."""
