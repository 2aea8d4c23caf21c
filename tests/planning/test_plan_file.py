# python -m pytest tests/planning/test_plan_file.py
"""Plans that are saved: read again as they were, refused where they fit neither model nor hosts, or are none."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dllama_py.blocks import FloatType
from dllama_py.errors import InputError, UsageError
from dllama_py.formats.shapes import shape_named
from dllama_py.planning.deciding import decide
from dllama_py.planning.plan import Plan
from dllama_py.planning.plan_file import as_json, check, check_settings, read, save
from tests.planning.households import kinds_of, node, switch, wishes

QWEN = shape_named("qwen3_8b")
HOSTS = ["desk", "laptop", "pi"]


def plan() -> Plan:
    nodes = [node("desk", 40, 3.0), node("laptop", 20), node("pi", 4, None)]
    return decide(wishes(QWEN), QWEN, kinds_of(QWEN), nodes, switch(3))


def test_a_plan_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("what was there before")
    save(plan(), path)
    assert read(path) == plan() and plan().counts[2] == 0
    check(read(path), path, QWEN, kinds_of(QWEN), HOSTS)
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]
    fields = json.loads(path.read_text())
    assert fields["version"] == 1 and fields["stages"][0]["layers"] == [0, plan().counts[0] - 1]
    assert fields["stages"][2]["layers"] is None and fields["decode_tok_s"] == plan().decode_tok_s


def test_another_model_or_other_hosts(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    save(plan(), path)
    saved = read(path)
    with pytest.raises(UsageError, match="made for model.gguf of 36 layers, whose tensors differ in shape or type"):
        check(saved, path, QWEN, kinds_of(QWEN, FloatType.Q80), HOSTS)
    with pytest.raises(UsageError, match=r"from this model's \(35 layers\)"):
        shorter = replace(QWEN, n_layers=35)
        check(saved, path, shorter, kinds_of(shorter), HOSTS)
    with pytest.raises(UsageError, match=r"made for model.gguf of 99 layers, .* \(36 layers\); make"):
        check(replace(saved, model=replace(saved.model, n_layers=99)), path, QWEN, kinds_of(QWEN), HOSTS)
    with pytest.raises(UsageError, match="made for 3 ranks, these are 2; start as many"):
        check(saved, path, QWEN, kinds_of(QWEN), HOSTS[:2])
    with pytest.raises(UsageError, match="rank 0 was on desk, it is on laptop now; start the ranks on the same hosts"):
        check(saved, path, QWEN, kinds_of(QWEN), ["laptop", "desk", "pi"])
    check(replace(saved, is_measured=False), path, QWEN, kinds_of(QWEN), ["any", "other", "hosts"])


def test_more_than_it_was_made_for(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    check_settings(plan(), path, 4096, 1)
    with pytest.raises(UsageError) as caught:
        check_settings(plan(), path, 8192, 1)
    assert str(caught.value) == (
        f"--plan {path}: made for a context of 4096, this run's is 8192; expected at most as much: --max-seq-len 4096, "
        "or plan anew"
    )
    with pytest.raises(UsageError, match="made for 1 sequences at once, this run has 4; expected at most as many"):
        check_settings(plan(), path, 4096, 4)


def spoiled(tmp_path: Path, spoil: Callable[[dict[str, Any]], object]) -> Path:
    path = tmp_path / "spoiled.json"
    fields = json.loads(json.dumps(as_json(plan())))
    spoil(fields)
    path.write_text(json.dumps(fields))
    return path


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda fields: fields["stages"][1].update(layers=[30, 35]), "in no stage; expected every layer once"),
        (lambda fields: fields["stages"][1].update(layers=[3, 35]), "in stage 1 and in one before it"),
        (lambda fields: fields["stages"][1].update(layers=None), "in no stage; expected every layer once"),
    ],
)
def test_gaps_and_overlaps(tmp_path: Path, spoil: Callable[[dict[str, Any]], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(spoiled(tmp_path, spoil))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda fields: fields.update(version=2),
        lambda fields: fields.pop("stages"),
        lambda fields: fields.update(stages=[7]),
        lambda fields: fields["stages"][0].update(layers=[-1, 5]),
        lambda fields: fields["stages"][0].update(layers=[0, 1e9]),
        lambda fields: fields["stages"][0].update(layers="05"),
        lambda fields: fields["stages"][0].update(number="0"),
        lambda fields: fields["stages"][0].update(more=1),
        lambda fields: fields["stages"][0].update(number=1),
        lambda fields: fields["stages"][0].update(ranks=[]),
        lambda fields: fields["stages"][0].update(ranks=[1]),
        lambda fields: fields["stages"][0].update(ranks=[0, 3], hosts=["desk", "pi"]),
        lambda fields: fields.update(chunk_rows=0),
        lambda fields: fields.update(token_s=float("nan")),
        lambda fields: fields["model"].update(n_layers=True),
        lambda fields: fields.update(token_s="fast"),
        lambda fields: fields.update(notes=3),
        lambda fields: fields.update(hops_s=float("nan")),
        lambda fields: fields.update(together_s=float("inf")),
        lambda fields: fields.update(context=-4096),
        lambda fields: fields.update(stages={}),
        lambda fields: fields["model"].update(weights_bytes=-1),
        lambda fields: fields["stages"][0].update(needs_bytes=-1),
        lambda fields: fields["stages"][0].update(chunk_s=float("nan")),
        lambda fields: fields["stages"][0].update(free_bytes=1.5),
        lambda fields: fields["stages"][0].update(ranks=["0"]),
        lambda fields: fields["stages"][0].update(hosts=[7]),
        lambda fields: fields["stages"][0].pop("token_s"),
    ],
)
def test_what_is_no_plan_is_refused_in_one_line(tmp_path: Path, spoil: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(InputError, match=r"^--plan .*spoiled.json: no plan \(.*; expected what --save-plan writes$"):
        read(spoiled(tmp_path, spoil))


@pytest.mark.parametrize("text", ["", "[]", "7", "{", "\0", "[" * 100_000, '{"version": 1'])
def test_other_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(InputError, match="no plan"):
        read(path)
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "missing.json")


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--save-plan .*: No such file or directory; expected a file that can be"):
        save(plan(), tmp_path / "no" / "plan.json")
