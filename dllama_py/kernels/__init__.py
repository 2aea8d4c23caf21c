"""Compiled arithmetic: the only door to numba. Knows memory and instructions, nothing of models, files or ranks.

Importing this package points numba's disk cache at a folder of its own; kernels compile on first use.
"""

from dllama_py.kernels import code_cache

code_cache.point_numba_at_it()
