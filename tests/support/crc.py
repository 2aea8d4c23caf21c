"""CRC-32C by its definition."""


def bit_by_bit(data: bytes) -> int:
    """The remainder, one bit after the other."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF
