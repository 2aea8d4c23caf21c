"""Messages between ranks: raw buffers only, nothing pickled; what the bytes mean is known to both sides.

This room does not know models, tensors or tokens.
"""
