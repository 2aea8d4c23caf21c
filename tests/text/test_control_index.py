# python -m pytest tests/text/test_control_index.py
"""Control tokens and parts of them are found as a walk over all of them would find them."""

from hypothesis import given
from hypothesis import strategies as st

from dllama_py.text.control_index import ControlIndex

LETTERS = st.text("<|ab>", max_size=6)


@given(st.sets(LETTERS.filter(bool), max_size=5), LETTERS)
def test_as_by_a_walk_over_all(controls: set[str], text: str) -> None:
    index = ControlIndex(controls)
    assert index.starts(text) == {
        start for start in range(len(text)) if any(text.startswith(control, start) for control in controls)
    }
    for stop in range(len(text) + 1):
        assert index.open_starts(text, stop) == {
            start for start in range(stop) if any(control.startswith(text[start:stop]) for control in controls)
        }
    heads = {text[:length] for length in range(1, len(text) + 1)}
    within = any(text and text in control and text != control for control in controls)
    assert index.is_part(text) == (within or any(map(_ends, controls, [heads] * len(controls))))


def _ends(control: str, heads: set[str]) -> bool:
    return any(control.endswith(head) and control != head for head in heads)


def test_thousands_are_no_walk() -> None:
    """Counted in comparisons, not in seconds: what is looked up is as long as the longest control token."""

    class Counted(str):
        n_compared = 0

        def startswith(self, *prefix: object) -> bool:  # type: ignore[override]
            Counted.n_compared += 1
            return super().startswith(*prefix)  # type: ignore[arg-type]

        def endswith(self, *suffix: object) -> bool:  # type: ignore[override]
            Counted.n_compared += 1
            return super().endswith(*suffix)  # type: ignore[arg-type]

    index = ControlIndex([Counted(f"<unused{id}>") for id in range(10_000)])
    index.starts("an end <"), index.open_starts("an end <", 8), index.is_part("an end <")
    assert Counted.n_compared == 0
