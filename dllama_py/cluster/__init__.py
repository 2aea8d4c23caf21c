"""The machines and processes around the engine: known models, fetching them, starting ranks and watching them.

This room does not know what is inside a model file.
"""
