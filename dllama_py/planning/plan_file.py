"""A plan as JSON: printed, saved, read again, and checked against the model and the hosts that it meets then."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dllama_py.config import ModelConfig
from dllama_py.errors import InputError, UsageError
from dllama_py.planning.plan import Model, Plan, StagePlan, digest
from dllama_py.planning.splits import check_ranges
from dllama_py.sharding.kinds import Kinds

VERSION = 1
MOST_BYTES = 1 << 24  # of a file that may be one


def as_json(plan: Plan) -> dict[str, Any]:
    """What a plan file holds: everything, and the rates that follow from it for whoever reads it."""
    fields = asdict(plan) | {"stages": [_stage_json(stage) for stage in plan.stages]}
    rates = {name: getattr(plan, name) for name in ("decode_tok_s", "prefill_tok_s", "batch_tok_s")}
    return {"version": VERSION, **fields, **rates}


def from_json(fields: dict[str, Any]) -> Plan:
    """KeyError, TypeError or ValueError where these are not the fields of a plan."""
    if fields["version"] != VERSION:
        raise ValueError(f"version {fields['version']!r}, this program reads {VERSION}")
    model, names = Model(**fields["model"]), list(Plan.__dataclass_fields__)
    _check(asdict(model), {"name": str, "n_layers": int, "weights_bytes": int, "digest": str})
    _check(fields, {"context": int, "chunk_rows": int, "n_sequences": int, "is_measured": bool, "stages": list})
    _check(fields, {"token_s": float, "hops_s": float, "prompt_s": float, "together_s": float})
    _check_above_0(fields, ("context", "chunk_rows", "n_sequences", "token_s", "prompt_s", "together_s"))
    plan = {name: fields[name] for name in names}
    stages = tuple(_stage(stage) for stage in fields["stages"])
    _check_order(stages)
    notes = tuple(str(note) for note in fields["notes"])
    return Plan(**(plan | {"model": model, "stages": stages, "notes": notes}))


def save(plan: Plan, path: Path) -> None:
    """Whole or not at all: written beside and moved. UsageError if it cannot be written."""
    beside = path.with_name(path.name + ".new")
    try:
        beside.write_text(json.dumps(as_json(plan), indent=1) + "\n")
        beside.replace(path)
    except OSError as error:
        raise UsageError(f"--save-plan {path}: {error.strerror}; expected a file that can be written") from error


def read(path: Path) -> Plan:
    """InputError in one line if it is no plan; UsageError if its layers have gaps or overlaps."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES)
        plan = from_json(json.loads(text))
    except OSError as error:
        raise InputError(f"--plan {path}: {error.strerror}; expected what --save-plan writes") from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"[:200]
        raise InputError(f"--plan {path}: no plan ({reason}); expected what --save-plan writes") from error
    check_ranges([stage.layers for stage in plan.stages], plan.model.n_layers, f"--plan {path}")
    return plan


def check(plan: Plan, path: Path, config: ModelConfig, kinds: Kinds, hosts: Sequence[str]) -> None:
    """UsageError unless the plan was made for this model on these hosts, one a rank, in this order."""
    if plan.model.digest != digest(config, kinds) or plan.model.n_layers != config.n_layers:
        raise UsageError(
            f"--plan {path}: made for {plan.model.name} of {plan.model.n_layers} layers, whose tensors differ in shape "
            f"or type from this model's ({config.n_layers} layers); make a plan for this one with --save-plan"
        )
    planned = [(rank, host) for stage in plan.stages for rank, host in zip(stage.ranks, stage.hosts, strict=True)]
    if len(planned) != len(hosts):
        raise UsageError(
            f"--plan {path}: made for {len(planned)} ranks, these are {len(hosts)}; start as many, or plan anew"
        )
    for rank, host in planned if plan.is_measured else ():
        if host != hosts[rank]:
            raise UsageError(
                f"--plan {path}: rank {rank} was on {host}, it is on {hosts[rank]} now; "
                "start the ranks on the same hosts in the same order (hostfile), or plan anew"
            )


def check_settings(plan: Plan, path: Path, context: int, n_sequences: int) -> None:
    """UsageError where this run would need more memory than its stages were made for."""
    if context > plan.context:
        raise UsageError(
            f"--plan {path}: made for a context of {plan.context}, this run's is {context}; "
            f"expected at most as much: --max-seq-len {plan.context}, or plan anew"
        )
    if n_sequences > plan.n_sequences:
        raise UsageError(
            f"--plan {path}: made for {plan.n_sequences} sequences at once, this run has {n_sequences}; "
            "expected at most as many, or plan anew with these"
        )


def _stage_json(stage: StagePlan) -> dict[str, Any]:
    """`layers`: the first and the last, null where there is none."""
    layers = [stage.layers.start, stage.layers[-1]] if stage.layers else None
    return asdict(stage) | {"layers": layers}


def _stage(fields: dict[str, Any]) -> StagePlan:
    numbers = ("number", "weights_bytes", "cache_bytes", "needs_bytes")
    _check(fields, dict.fromkeys(numbers, int) | {"token_s": float, "chunk_s": float, "ranks": list, "hosts": list})
    if fields["free_bytes"] is not None:
        _check(fields, {"free_bytes": int})
    layers = range(0)
    if fields["layers"] is not None:
        first, last = fields["layers"]
        _check({"first layer": first, "last layer": last}, {"first layer": int, "last layer": int})
        if first > last:
            raise ValueError(f"layers {first} to {last}")
        layers = range(first, last + 1)
    ranks, hosts = tuple(fields["ranks"]), tuple(fields["hosts"])
    for rank in ranks:
        _check({"rank": rank}, {"rank": int})
    for host in hosts:
        _check({"host": host}, {"host": str})
    if len(ranks) != len(hosts):
        raise ValueError(f"{len(ranks)} ranks on {len(hosts)} hosts")
    return StagePlan(**(fields | {"ranks": ranks, "hosts": hosts, "layers": layers}))


def _check_order(stages: Sequence[StagePlan]) -> None:
    """Stages and ranks are counted from 0 on, as many ranks in each stage: others would be run as if they were so."""
    if [stage.number for stage in stages] != list(range(len(stages))):
        raise ValueError(f"stages {[stage.number for stage in stages]}")
    ranks = [rank for stage in stages for rank in stage.ranks]
    if ranks != list(range(len(ranks))) or len({len(stage.ranks) for stage in stages}) > 1:
        raise ValueError(f"ranks {[list(stage.ranks) for stage in stages]}")


def _check_above_0(fields: dict[str, Any], names: Sequence[str]) -> None:
    for name in names:
        if not 0 < fields[name] < math.inf:
            raise ValueError(f"{name} is {fields[name]}, expected more than 0")


def _check(fields: dict[str, Any], types: dict[str, type]) -> None:
    """These are of such types, and numbers are not below 0."""
    for name, kind in types.items():
        value = fields[name]
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise ValueError(f"{name} is {value!r}, expected {kind.__name__}")
        if isinstance(value, int | float) and not 0 <= value < math.inf:
            raise ValueError(f"{name} is {value}, expected at least 0")
