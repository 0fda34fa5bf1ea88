"""A model's tensors from all parts to files and back, whatever the plan, and nothing believed that a file says."""
