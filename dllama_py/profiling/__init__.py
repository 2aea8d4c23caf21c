"""Where the time of a step goes: stamps of all ranks on one clock, what they amount to, pictures and advice."""
