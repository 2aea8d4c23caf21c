"""A Jinja environment for templates that come inside model files and are trusted with nothing.

Jinja's immutable sandbox keeps a template from Python's internals. On top of it each rendering has a budget of time
and size: every turn of a loop, call, filter and operator looks at the clock; whatever can make a value longer is
weighed before it runs, and what a filter yields bit by bit while it does; all that is written is counted where it is
written, also inside macros and `set` blocks.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from datetime import datetime
from functools import wraps
from typing import Any, cast

from jinja2 import nodes, pass_context
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from dllama_py.text.budget import (
    ITEM,
    Budget,
    check_count,
    check_product,
    check_size,
    current,
    depth,
    drained,
    factor,
    refuse,
    weight,
)

# What pads, wraps or invents text; no chat template needs it.
_UNWANTED_FILTERS = ("center", "format", "indent", "pprint", "urlize", "wordwrap", "xmlattr")
_UNWANTED_GLOBALS = ("lipsum", "cycler", "joiner")
_UNWANTED_METHODS = ("format", "format_map", "ljust", "rjust", "center", "zfill", "expandtabs", "translate")
_COUNTING = ("safe_range", "batch", "slice", "round", "to_bytes")  # whose numbers say how many, or are an exponent


def render(environment: "PromptEnvironment", source: str, variables: dict[str, Any]) -> str:
    """The text of a template. TemplateError, or whatever Python raises in the template's own operations."""
    token = current.set(Budget())
    try:
        template = environment.from_string(source)
        current.set(Budget())  # what the source itself takes grows with its length only
        return template.render(variables)
    finally:
        current.reset(token)


class PromptEnvironment(ImmutableSandboxedEnvironment):
    """The dialect of Hugging Face chat templates, with the limits above."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation])
        for name in _UNWANTED_FILTERS:
            del self.filters[name]
        for name in _UNWANTED_GLOBALS:
            del self.globals[name]
        self.filters["tojson"] = _to_json
        self.filters = {name: _limited(name, function) for name, function in self.filters.items()}
        self.filters |= {"timed": _timed, "joined": _joined, "counted": _counted}
        self.globals |= {"raise_exception": refuse, "strftime_now": _strftime_now}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Jinja's hook between text and code: puts loops, the ~ operator and all output under the budget."""
        tree = super()._parse(source, name, filename)

        def through(filter_name: str, node: nodes.Node) -> nodes.Filter:
            return nodes.Filter(
                cast(nodes.Expr, node), filter_name, [], [], None, None, lineno=node.lineno, environment=self
            )

        for loop in tree.find_all(nodes.For):
            loop.iter = through("timed", loop.iter)
        for concat in list(tree.find_all(nodes.Concat)):
            parts = nodes.Tuple(concat.nodes, "load", lineno=concat.lineno, environment=self)
            concat.nodes = [through("joined", parts)]
        for output in tree.find_all(nodes.Output):
            output.nodes = [through("counted", _constant(node)) for node in output.nodes]
        return tree

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        current.get().check_time()
        if operator == "**" or (operator == "%" and isinstance(left, str | bytes)):
            refuse(f"the operator {operator} is not allowed on these values")
        if operator == "+":
            check_size(weight(left) + weight(right))
        if operator == "*":
            check_product(left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, function: Any, *args: Any, **kwargs: Any) -> Any:
        name = getattr(function, "__name__", "")
        if name in _UNWANTED_METHODS:
            refuse(f"the method {name} is not allowed")
        _check_arguments(name, (getattr(function, "__self__", ""), *args), kwargs)
        return super().call(context, function, *args, **kwargs)


class _Generation(Extension):
    """{% generation %} marks the assistant's words for training; here it only shows its body."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _constant(node: nodes.Node) -> nodes.Node:
    if isinstance(node, nodes.TemplateData):
        return nodes.Const(node.data, lineno=node.lineno, environment=node.environment)
    return node


def _check_arguments(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Before a call or a filter: replace and join cannot outgrow the limit, counts and values are not huge.

    The first argument is what a filter or a method is applied to.
    """
    current.get().check_time()
    arguments = (*args, *kwargs.values())
    if name in _COUNTING:
        for argument in (*args[1:], *kwargs.values()):
            check_count(argument)
    check_size(sum(map(weight, arguments)))
    if name == "replace":
        new = kwargs["new"] if "new" in kwargs else args[2] if len(args) > 2 else ""
        check_size(weight(args[0] if args else "") * factor(new))
    if name == "join":  # of the values' number and the separator's length we do not ask which is which
        lengths = sorted((len(argument) for argument in arguments if isinstance(argument, Sized)), reverse=True)
        check_size(lengths[0] * lengths[1] if len(lengths) > 1 else 0)


def _limited(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    first = 1 if getattr(function, "jinja_pass_arg", None) else 0  # Jinja passes such a filter its context first

    @wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        _check_arguments(name, args[first:], kwargs)
        result = function(*args, **kwargs)
        return drained(result) if isinstance(result, Iterator) else result

    return limited


def _timed(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        current.get().check_time()
        yield item


def _joined(parts: tuple[Any, ...]) -> str:
    current.get().check_time()
    check_size(weight(parts))
    return "".join(map(str, parts))


@pass_context  # keeps Jinja from counting constants while it compiles
def _counted(context: Context, value: Any) -> Any:
    current.get().spend(value)
    return value


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    if indent is not None and indent > 16:
        refuse(f"it indents JSON by {indent}")
    check_size((indent or 0) * depth(value) * (weight(value) // ITEM))
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)
