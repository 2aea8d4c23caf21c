"""One sequence's ids, with every step for itself."""

from collections.abc import Iterator, Sequence
from contextlib import closing

from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.speculation import NO_SPECULATION, Speculating
from dllama_py.engine.together import Together
from dllama_py.engine.token_loop import Event, token_loop


def generate(
    sequence: CachedSequence,
    prompt: Sequence[int],
    settings: SamplerSettings,
    n_tokens: int,
    n_vocab: int,
    speculation: Speculating = NO_SPECULATION,
) -> Iterator[Event]:
    """What happens in `token_loop`. The caller stops at end tokens by ending the iteration."""
    together = Together[int](sequence.runner)
    with closing(token_loop(sequence, prompt, settings, n_tokens, n_vocab, speculation)) as loop:
        together.add(0, loop)
        try:
            while together.n_loops:
                for _, event in together.turn():
                    if event is not None:
                        yield event
        except GeneratorExit:
            together.forget(0)
            raise
