"""A thin door to the converters of `dllama_py`: `python -m converter model ...`."""
