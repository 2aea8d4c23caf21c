"""Compiled arithmetic: the only door to numba. Knows memory and instructions, nothing of models, files or ranks.

Kernels compile on first use, and are kept in a folder of their own (code_cache.py).
"""
