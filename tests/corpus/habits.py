"""All habits, by theme."""

import habits_buffers
import habits_constants
import habits_ends
import habits_layers
import habits_networks
import habits_norms
import habits_numbers
import habits_parameters
import habits_products
import habits_resizing
import habits_rows
import habits_values
import habits_writes
from habit import HABITS

THEMES = (  # in the order of the table
    habits_layers,
    habits_norms,
    habits_resizing,
    habits_products,
    habits_networks,
    habits_parameters,
    habits_buffers,
    habits_constants,
    habits_rows,
    habits_writes,
    habits_ends,
    habits_numbers,
    habits_values,
)

__all__ = ["HABITS", "THEMES"]
