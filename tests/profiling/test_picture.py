# python -m pytest tests/profiling/test_picture.py
import xml.etree.ElementTree as ElementTree

from dllama_py.profiling.analysis import step_times
from dllama_py.profiling.picture import COLOURS, Bar, Token, picture
from tests.profiling.sessions import two_ranks

SVG = "{http://www.w3.org/2000/svg}"


def test_a_token_and_the_bars() -> None:
    ranks, spans = two_ranks()
    token = Token(spans[0], *step_times(ranks, spans, [range(2)]))
    bars = [Bar("2 nodes, f32", 0.001, 0.0005, 0.0005, 0.001, False), Bar("1 node <alone>", 0.0045, 0, 0, 0, True)]
    root = ElementTree.fromstring(picture(ranks, token, bars))
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert [word for word in words if word and "rank" in word] == [
        "rank 0 (a), thread 0",
        "rank 0, thread 1",
        "rank 1 (b), thread 0",
    ]
    assert "One token: 2.00 ms" in words
    assert "3.00 ms, 1.00 ms between nodes" in words and "1 node <alone>" in words
    rects = [
        (rect.get("fill"), float(rect.get("x", 0)), float(rect.get("width", 0))) for rect in root.iter(f"{SVG}rect")
    ]
    scale = 990 / 2000  # pixels a microsecond
    assert (COLOURS["wait"], round(190 + 500 * scale, 2), round(300 * scale, 2)) in rects
    assert (COLOURS["transfer"], round(190 + 800 * scale, 2), round(150 * scale, 2)) in rects
