"""Outlive the loss of a host: copies on another one, a new generation on fewer parts, and who comes back in."""
