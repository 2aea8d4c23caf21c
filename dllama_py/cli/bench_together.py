"""`bench --sequences N`: how fast many sequences are decoded at once, beside one alone."""

from dllama_py.boot import Engine
from dllama_py.cli.measuring import ANY_ID, some_prompt
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.together import Together
from dllama_py.engine.token_loop import Token, token_loop


def together_tok_s(engine: Engine, n_sequences: int, n_prompt: int, n_steps: int) -> float:
    """Tokens per second of all sequences, while all of them decode."""
    times_s = _token_times(engine, n_sequences, n_prompt, n_steps)
    start_s, end_s = max(times[0] for times in times_s), min(times[-1] for times in times_s)
    n_tokens = sum(start_s < at_s <= end_s for times in times_s for at_s in times)
    return n_tokens / (end_s - start_s)


def _token_times(engine: Engine, n_sequences: int, n_prompt: int, n_steps: int) -> list[list[float]]:
    """When each token of each sequence was there. Every prompt is another one."""
    together = Together[int](engine.runner)
    for number in range(n_sequences):
        sequence = CachedSequence(engine.runner, slot=number)
        prompt = some_prompt(engine, n_prompt + number)[number:]
        together.add(number, token_loop(sequence, prompt, SamplerSettings(), n_steps, ANY_ID))
    times_s: list[list[float]] = [[] for _ in range(n_sequences)]
    while together.n_loops:
        for number, event in together.turn():
            if isinstance(event, Token):
                times_s[number].append(event.at_s)
    return times_s
