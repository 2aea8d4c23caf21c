"""Model files: what is in them and how it is read and written. This room runs nothing and needs no compiled code."""
