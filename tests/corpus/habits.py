"""All habits, by theme."""

import habits_ends
import habits_layers
import habits_networks
import habits_rows
import habits_state
import habits_writes
from habit import HABITS

THEMES = (habits_rows, habits_state, habits_writes, habits_layers, habits_networks, habits_ends)

__all__ = ["HABITS", "THEMES"]
