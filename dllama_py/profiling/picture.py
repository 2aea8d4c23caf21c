"""A picture (SVG) of one token's timeline and of the time between nodes over node counts, without a library."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from dllama_py.profiling.analysis import StepTimes, first_stamp
from dllama_py.profiling.timeline import RankTimeline, Span
from dllama_py.stamps import Role, Run

WIDTH, LEFT, RIGHT = 1200, 190, 20
LANE, GAP, TOP = 30, 6, 64
BAR, BAR_GAP = 26, 10
FINEST = 0.4  # pixels; shorter pieces of one colour flow together

COLOURS = {
    "weights": "#4c78a8",
    "attention": "#f2a93b",
    "small": "#72b7b2",
    "wait": "#d64f4f",
    "transfer": "#9467bd",
    "between programs": "#d9d9d9",
}
MEANINGS = {
    "weights": "products with weights",
    "attention": "attention",
    "small": "other kernels",
    "wait": "waiting for others",
    "transfer": "messages",
    "between programs": "between programs",
}
FONT = "font-family='sans-serif' font-size='13' fill='#222'"


@dataclass(frozen=True, slots=True)
class Bar:
    """A token on a number of nodes, in seconds; forecasts are drawn pale, with all sync in `transfer_s`."""

    label: str
    compute_s: float
    wait_s: float
    transfer_s: float
    outside_s: float
    is_forecast: bool

    @property
    def parts(self) -> list[tuple[str, float]]:
        """By colour."""
        return [
            ("weights", self.compute_s),
            ("wait", self.wait_s),
            ("transfer", self.transfer_s),
            ("between programs", self.outside_s),
        ]


@dataclass(frozen=True, slots=True)
class Token:
    """The step that is drawn, with the beginning of the next one, for which some wait already."""

    span: Span
    step: StepTimes
    following: StepTimes


def picture(ranks: Sequence[RankTimeline], token: Token, bars: Sequence[Bar]) -> str:
    """The whole SVG: the step's timeline above, the bars below."""
    step = token.step
    lanes = [(rank, thread) for rank, timeline in enumerate(ranks) for thread in range(timeline.n_threads)]
    chart_top = TOP + len(lanes) * (LANE + GAP) + 60
    height = chart_top + 40 + len(bars) * (BAR + BAR_GAP) + 20
    title = f"One token: {step.seconds * 1000:.2f} ms"
    body = [
        _text(LEFT, 26, title, "font-weight='bold'"),
        *_legend(),
        *(line for number, lane in enumerate(lanes) for line in _lane(ranks, token, lane, TOP + number * (LANE + GAP))),
        *_axis(step.seconds, TOP, chart_top - 50),
        *_chart(bars, chart_top),
    ]
    head = f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' viewBox='0 0 {WIDTH} {height}'>"
    return "\n".join([head, f"<rect width='{WIDTH}' height='{height}' fill='white'/>", *body, "</svg>\n"])


def _legend() -> Iterator[str]:
    x = LEFT
    for name, colour in COLOURS.items():
        yield f"<rect x='{x}' y='38' width='12' height='12' fill='{colour}'/>"
        yield _text(x + 17, 49, MEANINGS[name])
        x += 40 + 7 * len(MEANINGS[name])


def _lane(ranks: Sequence[RankTimeline], token: Token, lane: tuple[int, int], y: int) -> Iterator[str]:
    """What a thread does, and on the first of a rank the waits and messages."""
    rank, thread = lane
    zero, length_ns = first_stamp(ranks, token.span), round(token.step.seconds * 1e9)
    per_ns = (WIDTH - LEFT - RIGHT) / length_ns
    host = f" ({ranks[rank].host})" if thread == 0 and len(ranks) > 1 else ""
    yield _text(LEFT - 8, y + 20, f"rank {rank}{host}, thread {thread}"[-28:], "text-anchor='end'")
    yield _rect(LEFT, y, WIDTH - LEFT - RIGHT, LANE, COLOURS["between programs"])
    pieces: list[tuple[int, int, str]] = []
    for run in ranks[rank].runs_of(token.span):
        pieces.append((int(run.stamps.min()), int(run.stamps.max()), "white"))
        pieces += _kernels(ranks[rank], run, thread)
    pieces += _pauses(token, rank) if thread == 0 else ()
    for begun, ended, colour in _flowing(pieces, FINEST / per_ns):
        begun, ended = max(begun, zero), min(ended, zero + length_ns)
        if begun < ended:
            yield _rect(LEFT + (begun - zero) * per_ns, y, (ended - begun) * per_ns, LANE, colour)


def _pauses(token: Token, rank: int) -> Iterator[tuple[int, int, str]]:
    """Of all-reduces, and of messages from another stage."""
    marks = []
    for each in token.step.collectives:
        if rank in each.ranks:
            own = rank - each.ranks.start
            marks.append((each.arrived_ns[own], max(each.arrived_ns), each.through_ns[own]))
    for hop in (*token.step.hops, *token.following.hops):
        if hop.receiver == rank:
            marks.append((hop.asked_ns, max(hop.sent_ns, hop.asked_ns), hop.arrived_ns))
    for asked, sent, through in marks:
        yield asked, sent, COLOURS["wait"]
        yield sent, through, COLOURS["transfer"]


def _kernels(timeline: RankTimeline, run: Run, thread: int) -> Iterator[tuple[int, int, str]]:
    for work, (begun, ended) in zip(timeline.works(run), run.stamps[thread].tolist(), strict=True):
        if work.role is not Role.EXCHANGE:
            yield begun, ended, COLOURS.get(work.role, COLOURS["small"])


def _flowing(pieces: Iterable[tuple[int, int, str]], finest: float) -> list[tuple[int, int, str]]:
    """Neighbours of one colour as one piece, where no more than `finest` nanoseconds lie between."""
    found: list[tuple[int, int, str]] = []
    for begun, ended, colour in pieces:
        if found and found[-1][2] == colour and 0 <= begun - found[-1][1] <= finest:
            found[-1] = (found[-1][0], ended, colour)
        else:
            found.append((begun, ended, colour))
    return found


def _axis(seconds: float, top: int, bottom: int) -> Iterator[str]:
    """Ticks of whole milliseconds, or parts of them, under the lanes."""
    ms = seconds * 1000
    every = next(tick for tick in (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 50, 100, 500, 1e3, 5e3, 1e9) if ms / tick <= 20)
    for number in range(int(ms / every) + 1):
        x = LEFT + number * every / ms * (WIDTH - LEFT - RIGHT)
        yield f"<line x1='{x:.1f}' y1='{top}' x2='{x:.1f}' y2='{bottom - 14}' stroke='#888' stroke-width='0.4'/>"
        yield _text(x, bottom + 2, f"{number * every:g}", "text-anchor='middle'")
    yield _text(LEFT - 8, bottom + 2, "ms", "text-anchor='end'")


def _chart(bars: Sequence[Bar], top: int) -> Iterator[str]:
    longest = max(sum(seconds for _, seconds in bar.parts) for bar in bars)
    yield _text(
        LEFT,
        top + 10,
        "A token in other settings (pale: forecast), and the part between the nodes",
        "font-weight='bold'",
    )
    for number, bar in enumerate(bars):
        y, x = top + 28 + number * (BAR + BAR_GAP), float(LEFT)
        yield _text(LEFT - 8, y + 17, bar.label, "text-anchor='end'")
        for name, seconds in bar.parts:
            width = seconds / longest * (WIDTH - LEFT - RIGHT - 230)
            yield _rect(x, y, width, BAR, COLOURS[name], 0.45 if bar.is_forecast else 1)
            x += width
        sync_s = bar.wait_s + bar.transfer_s
        whole_s = sum(seconds for _, seconds in bar.parts)
        yield _text(x + 8, y + 17, f"{whole_s * 1000:.2f} ms, {sync_s * 1000:.2f} ms between nodes")


def _rect(x: float, y: float, width: float, height: float, colour: str, opacity: float = 1) -> str:
    pale = f" fill-opacity='{opacity}'" if opacity < 1 else ""
    return f"<rect x='{x:.2f}' y='{y}' width='{max(width, 0):.2f}' height='{height}' fill='{colour}'{pale}/>"


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y}' {FONT} {more}>{escape(words)}</text>"
