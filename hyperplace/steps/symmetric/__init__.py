"""Symmetric: Runs -> Shares -> Layout: only how many filters (or rows) of a run sit on each part matters."""
