"""What follows from a plan's settings, facts, owners and kernels: all the rest of it, by one rule for all.

Whoever makes a plan uses this to finish it, and whoever meets one, from a file or by hand, to check it.
"""

from hyperplace.values.derived.differences import derived, differences

__all__ = ["derived", "differences"]
