"""hyperplace: decide which filters of a CNN live on which device, and prove what that costs."""
