"""Share: Runs -> Shares: how many filters of every run sit on each part."""
