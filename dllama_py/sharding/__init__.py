"""Which rank owns what of a model, and how it gets there. Nothing is computed here."""
