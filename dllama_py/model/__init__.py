"""A page an architecture, and what all of them are made of. It knows no rank beyond the all-reduce it is given."""
