# python -m pytest tests/text/test_sandbox.py
"""Templates of the Hugging Face dialect run; hostile ones end early, small and without reaching Python."""

import pytest
from jinja2 import TemplateError

from dllama_py.text import budget
from dllama_py.text.sandbox import PromptEnvironment, render

N = 9007199254740993  # what a float cannot hold, and far above any count


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{% for x in [1, 2] %}{{ loop.index }}{{ loop.last }}{% endfor %}", "1False2True"),
        ("{% for k, v in {'a': 1}.items() if v %}{{ k ~ '=' ~ v }}{% else %}none{% endfor %}", "a=1"),
        ("{% for x in missing %}{{ x }}{% else %}none{% endfor %}{{ missing }}", "none"),
        ("{% for x in [[1], [2]] recursive %}[{{ x if x is number else loop(x) }}]{% endfor %}", "[[1]][[2]]"),
        ("  {% if true %}\n  a\n  {%- endif %}\n b", "  a b"),
        ("{% generation %}a{% endgeneration %}{% for i in [1, 2] %}{% break %}{% endfor %}", "a"),
        ("{{ {'a': 'é<|x|>', 'b': [1]} | tojson }}", '{"a": "é<|x|>", "b": [1]}'),
        ("{{ {'a': 1} | tojson(indent=2) }}", '{\n  "a": 1\n}'),
        ("{{ [3, 1] | sort | first }}{{ ' x ' | trim }}{{ 7 % 2 }}{{ 2 * 3 }}{{ 'ab'[::-1] }}", "1x16ba"),
        ("{{ [{'r': 'u'}] | selectattr('r', 'equalto', 'u') | list | length }}", "1"),
        ("{{ [{'r': 'a'}, {'r': 'b'}] | map(attribute='r') | join(', ') }}{{ {'k': 'v'}.keys() | join }}", "a, bk"),
        ("{{ 'a.b' | replace('.', '-') }}{{ 'a.b'.replace('.', '') }}{{ ', '.join(['x', 'y']) }}", "a-babx, y"),
        ("{{ [1, [2, {'a': []}]] | tojson(indent=1) }}", '[\n 1,\n [\n  2,\n  {\n   "a": []\n  }\n ]\n]'),
        ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m('a') + m('b') }}", "<a><b>"),
        ("{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "3"),
        (
            "{% set ns = namespace(a='b') %}{% macro m(x) %}{{ x.a }}{% endmacro %}{{ m(ns) }}{{ ns }}",
            "b<Namespace {'a': 'b'}>",
        ),
        ("{{ 'a<b>&c' }}", "a<b>&c"),
        ("{{ strftime_now('%%') }}", "%"),
    ],
)
def test_the_dialect(source: str, text: str) -> None:
    assert render(PromptEnvironment(), source, {}) == text


GROW = (
    "{%% set ns = namespace(s='xx') %%}{%% for i in range(99) %%}{%% set ns.s = %s %%}{%% endfor %%}{{ ns.s | tojson }}"
)


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(10**9) %}x{% endfor %}",
        "{% for i in range(1000000000) %}x{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% set r = range(99999) | list %}{% for i in r %}{% for j in r %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}xxxxxxxx{% endfor %}{% endfor %}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(99) }}",
        "{% set t %}{% for i in range(99999) %}{% for j in range(99999) %}xxxx{% endfor %}{% endfor %}{% endset %}",
        "{{ 'x' * 10000000000 }}",
        "{{ 10000000000 * [0] }}",
        "{{ 1 | round(10000000000, 'ceil') }}",
        "{{ [5 | float | int] | map('round', precision=-10000000000) | list }}",
        "{{ (1).to_bytes(10000000000, 'big') }}",
        "{{ [1] | batch(10000000000, 'x') | list }}",
        "{{ [1] | slice(10000000000) | list }}",
        "{% set ns = namespace(n=7) %}{% for i in range(99) %}{% set ns.n = ns.n * ns.n %}{% endfor %}{{ ns.n > 0 }}",
        "{{ 999999 * 'xxxxxxxxxx' }}",
        "{{ ([0] * 999999) * 999999 }}",
        "{{ '%10000000000d' % 1 }}",
        "{{ '{:10000000000}'.format(1) }}",
        "{{ 'a'.ljust(10000000000) }}",
        "{{ 'a' | center(10000000000) }}",
        "{{ [1] | tojson(indent=10000) }}",
        "{{ ('x' * 999999).replace('x', 'y' * 999999) }}",
        "{{ ('x' * 999999) | replace(new='y' * 999999, old='x') }}",
        "{{ ('x' * 999999).translate({120: 'y' * 999999}) }}",
        "{{ ('y' * 999999).join('x' * 999999) }}",
        "{{ ('x' * 999999) | join('y' * 999999) }}",
        "{{ (range(99999) | list) | join('y' * 999999) }}",
        "{{ range(99999) | join(d='y' * 999999) }}",
        "{{ dict.fromkeys(range(99999), '').values() | join('y' * 999999) }}",
        "{{ [1] | batch(999999, 'x' * 999999) | join }}",
        "{{ (['x'] * 99999) | map('replace', 'x', 'y' * 999999) | join }}",
        "{% set ns = namespace(a=[]) %}{% for i in range(99) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns }}",
        "{% set ns = namespace(a=[0] * 99999) %}{% for i in range(99) %}{% set ns.a = [ns.a] %}{% endfor %}"
        "{{ ns.a | tojson(indent=16) }}",
        *(
            GROW % step
            for step in (
                "ns.s ~ ns.s",
                "ns.s + ns.s",
                "ns.s.replace('x', 'xx')",
                "ns.s | replace('x', 'xx')",
                "[ns.s, ns.s] | join",
                "''.join([ns.s, ns.s])",
                "[ns.s, ns.s]",
                "[ns.s, ns.s] | string",
            )
        ),
    ],
)
@pytest.mark.timeout(30)  # without limits each would run for hours, or out of memory
def test_a_hostile_template_is_ended(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MAX_SECONDS", 0.3)
    with pytest.raises(TemplateError):
        render(PromptEnvironment(), source, {})


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ n | string }}{{ n | tojson }}{{ n }}", "9007199254740993" * 3),
        (
            "{{ n + 1 }} {{ n - 1 }} {{ n * 1000 }} {{ n * 0.5 }} {{ n // 2 }}",
            f"{N + 1} {N - 1} {N * 1000} {N * 0.5} {N // 2}",
        ),
        ("{% macro m(x, y=0) %}{{ x }}{{ y }}{% endmacro %}{{ m(n, y=n) }}", "9007199254740993" * 2),
        ("{{ none | default(n, true) }}{{ [n, n] | max }}{{ [1, 2] | sum(start=n) }}", f"{N}{N}{N + 3}"),
        ("{{ n | round }} {{ n | abs }} {{ '-7' | int(n) }} {{ n | float | int }}", f"{N} {N} -7 {int(float(N))}"),
        ("{{ [{'a': n}] | selectattr('a', 'equalto', n) | list | tojson }}", f'[{{"a": {N}}}]'),
        ("{{ {'a': n}.get('b', n) }}{{ dict(a=n).a }}{{ namespace(a=n).a }}{{ [n] | join('-') }}", str(N) * 4),
        ("{{ 'abcdef' | truncate(n) }}{{ 'aa' | replace('a', 'b', n) }}{{ 'a b'.split(' ', n) | join }}", "abcdefbbab"),
        ("{{ (n | string).replace('9', '8', n) }}{{ 'ab'[:n] }}", str(N).replace("9", "8") + "ab"),
    ],
)
def test_large_numbers_are_values_like_any_other(source: str, text: str) -> None:
    assert render(PromptEnvironment(), source, {"n": N}) == text


@pytest.mark.parametrize(
    "source", ["{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}", "{{ raise_exception.__globals__.x }}"]
)
def test_python_is_out_of_reach(source: str) -> None:
    with pytest.raises(TemplateError):
        render(PromptEnvironment(), source, {"messages": [1]})
