"""The processes of a run on several hosts: how they meet, show signs of life, tell what all must know, and part."""
