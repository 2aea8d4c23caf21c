# python -m pytest tests/test_memory_plan.py
"""The plan before loading: who has too little, how far the context could grow, and what would fit."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dllama_py.blocks import FloatType
from dllama_py.errors import UsageError
from dllama_py.formats.shapes import shape_named
from dllama_py.formats.synthetic import SyntheticCheckpoint
from dllama_py.kernels.keys import MOST_CANDIDATES
from dllama_py.memory_plan import NodeFacts, plan_memory, refuse_what_does_not_fit
from dllama_py.orders import Orders
from dllama_py.sharding.kinds import tensor_kinds
from dllama_py.transport.hosts import Host, told_apart
from tests.checkpoints import tiny_model_file

GB = 1_000_000_000


def orders(shape: str = "llama3_1_8b_instruct", weights: FloatType = FloatType.Q40, context: int = 4096) -> Orders:
    config = shape_named(shape)
    kinds = tensor_kinds(SyntheticCheckpoint(config, weights), None)
    return Orders(config, kinds, context, "f32", True, False, 64, 1, (config.n_layers,), "f32", None)


def hosts(*free_bytes: int | None) -> list[NodeFacts]:
    return [NodeFacts(Host.named(f"host{rank}"), 4, free, None) for rank, free in enumerate(free_bytes)]


def refusal(wish: Orders, facts: list[NodeFacts], from_folder: bool = False) -> str:
    plan = plan_memory(wish, facts)
    assert not plan.fits
    with pytest.raises(UsageError) as caught:
        refuse_what_does_not_fit(plan, wish, facts, from_folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_fits_is_let_through() -> None:
    facts = hosts(8 * GB, 8 * GB)
    plan = plan_memory(orders(), facts)
    refuse_what_does_not_fit(plan, orders(), facts, False)
    assert plan.fits and [node.host.name for node in plan.nodes] == ["host0", "host1"]
    needs = plan.nodes[0].needs
    assert needs.cache_bytes == 32 * 4096 * 4 * 128 * 2 * 2  # layers, positions, half the heads, f16, keys and values
    assert 2.0 * GB < needs.weights_bytes < 2.2 * GB


def test_the_context_grows_as_far_as_the_smallest_host_lets_it() -> None:
    plan = plan_memory(orders(), hosts(8 * GB, 4 * GB))
    assert plan.longest_context % 64 == 0 and 4096 < plan.longest_context < 131072
    more = plan_memory(orders(context=plan.longest_context), hosts(8 * GB, 4 * GB))
    assert more.fits and not plan_memory(orders(context=plan.longest_context + 64), hosts(8 * GB, 4 * GB)).fits
    assert plan_memory(orders(), hosts(64 * GB, 64 * GB)).longest_context == 131072


def test_a_context_that_would_fit() -> None:
    line = refusal(orders(context=131072), hosts(8 * GB, 6 * GB))
    assert line.startswith("rank 0 on host0 needs 11.") and ", 8.00 GB are free; what would fit: --max-seq-len " in line
    context = int(line.split("--max-seq-len ")[1].split(",")[0])
    assert plan_memory(orders(context=context), hosts(8 * GB, 6 * GB)).fits


def test_the_rank_with_too_little_is_named() -> None:
    assert refusal(orders(), hosts(8 * GB, 1 * GB)).startswith("rank 1 on host1 needs 2.6")


def test_more_nodes_that_would_fit() -> None:
    assert refusal(orders(), hosts(2 * GB)).endswith("2.00 GB are free; what would fit: 4 nodes on hosts of their own")


def test_smaller_weights_that_would_fit() -> None:
    wish = orders(weights=FloatType.F16)
    assert "what would fit: --weights q40, or 2 nodes on hosts of their own" in refusal(wish, hosts(9 * GB), True)
    assert "what would fit: the model in q40, or " in refusal(wish, hosts(9 * GB))


def test_nothing_that_would_fit() -> None:
    line = refusal(orders("llama3_3_70b_instruct"), hosts(2 * GB))
    assert "; no shorter context and no number of such hosts is enough; use a smaller model or hosts with " in line


def test_ranks_of_one_host_share_its_memory() -> None:
    facts = [NodeFacts(Host.named("only"), 1, 5 * GB, None)] * 2
    assert plan_memory(orders(), facts).nodes[1].free_bytes == 2.5 * GB
    assert "2.65 GB of memory, 5.27 GB with the other ranks there, 5.00 GB are free; " in refusal(orders(), facts)


def test_machines_of_one_name_do_not_share_memory() -> None:
    pis = told_apart([Host(boot, "raspberrypi") for boot in ("b1", "b2")])
    facts = [NodeFacts(pi, 4, 3 * GB, None) for pi in pis]
    plan = plan_memory(orders(), facts)
    assert plan.fits and [node.free_bytes for node in plan.nodes] == [3 * GB] * 2
    assert refusal(orders(), [facts[0], replace(facts[1], host_bytes=2 * GB)]).startswith("rank 1 on raspberrypi (2) ")


def test_containers_share_the_memory_of_their_kernel_within_their_limits() -> None:
    boxes = [Host("boot", f"box{rank}", container=f"m{rank}") for rank in range(2)]
    facts = [NodeFacts(box, 4, 6 * GB, None, 3 * GB) for box in boxes]
    assert plan_memory(orders(), facts).fits  # 2.6 GB each
    assert [node.free_bytes for node in plan_memory(orders(), facts).nodes] == [3 * GB] * 2
    crowded = [replace(node, host_bytes=5 * GB) for node in facts]
    assert "2.65 GB of memory, 5.27 GB with the other ranks there, 5.00 GB are free; " in refusal(orders(), crowded)
    narrow = [facts[0], replace(facts[1], container_bytes=GB)]
    assert refusal(orders(), narrow).startswith("rank 1 on box1 needs 2.62 GB of memory, 1.00 GB are free; ")
    together = [replace(node, host=boxes[0], container_bytes=4 * GB) for node in facts]
    assert "5.27 GB with the other ranks there, 4.00 GB are free; " in refusal(orders(), together)


def test_a_limit_of_one_process() -> None:
    facts = [NodeFacts(Host.named("a"), 1, 50 * GB, None), NodeFacts(Host.named("a"), 1, 50 * GB, 1 * GB)]
    assert refusal(orders(), facts).startswith("rank 1 on a needs ")


def test_unknown_memory_is_no_obstacle() -> None:
    plan = plan_memory(orders(), hosts(None, None))
    assert plan.fits and plan.longest_context == 131072 and plan.nodes[0].free_bytes is None


def test_a_rank_with_too_little_is_refused_before_a_weight_is_read(tmp_path: Path) -> None:
    model = tiny_model_file(tmp_path / "tiny.m")
    script = 'if [ "$PMI_RANK" = 1 ]; then ulimit -v 400000; fi; exec "$@"'
    mpirun = str(Path(sys.executable).with_name("mpirun"))
    program = [sys.executable, "-m", "dllama_py", "inference", "--model", str(model), "--ids", "1", "--nthreads", "1"]
    command = [mpirun, "-np", "2", "sh", "-c", script, "sh", *program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "memory in MB " in done.stderr and "rank 1 on " in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: rank 1 on ")
    assert re.search(r"needs 0\.20 GB of memory, 0\.\d\d GB are free", done.stderr.splitlines()[-1])


def test_a_model_that_guesses_counts_at_the_root() -> None:
    draft = orders("qwen3_0.6b", context=2048)
    alone, with_draft = (
        plan_memory(orders(), hosts(8 * GB, 8 * GB)),
        plan_memory(orders(), hosts(8 * GB, 8 * GB), draft),
    )
    assert [node.needs.draft_bytes for node in alone.nodes] == [0, 0]
    root, worker = with_draft.nodes
    own = plan_memory(draft, hosts(8 * GB)).nodes[0].needs
    assert root.needs.draft_bytes > own.weights_bytes + own.cache_bytes > 0.4 * GB
    assert root.needs.total_bytes == alone.nodes[0].needs.total_bytes + root.needs.draft_bytes
    assert worker == alone.nodes[1]
    assert with_draft.longest_context < alone.longest_context


def test_without_the_guessing_model_it_would_fit() -> None:
    facts = hosts(int(3.2 * GB), 8 * GB)
    plan = plan_memory(orders(), facts, orders("qwen3_0.6b"))
    with pytest.raises(UsageError, match=r"rank 0 on host0 needs .*; what would fit: no --draft, or "):
        refuse_what_does_not_fit(plan, orders(), facts, False)


def test_a_pipeline_needs_less_on_each_rank_the_more_there_are() -> None:
    wish = orders()
    four = [node.needs for node in plan_memory(replace(wish, layer_counts=(8, 8, 8, 8)), hosts(*[8 * GB] * 4)).nodes]
    one = plan_memory(wish, hosts(8 * GB)).nodes[0].needs
    assert [need.cache_bytes for need in four] == [one.cache_bytes // 4] * 4
    assert [need.weights_bytes for need in four[:3]] == [four[0].weights_bytes] * 3
    assert sum(need.weights_bytes for need in four) == one.weights_bytes


def test_a_pipeline_that_does_not_fit_may_be_longer() -> None:
    wish = replace(orders(), layer_counts=(16, 16))
    assert "3 nodes on hosts of their own" in refusal(wish, hosts(int(2.5 * GB), int(2.5 * GB)))


def test_the_last_stage_keeps_logits_of_steps_that_are_still_looked_at() -> None:
    wish = replace(orders("qwen3_0.6b"), layer_counts=(14, 14))
    first, last = (node.needs for node in plan_memory(wish, hosts(8 * GB, 8 * GB)).nodes)
    row = (151936 + 16) * 4  # bytes of the vocabulary
    kept_bytes = (64 + 3 * 16) * row - 64 * 16 * 4 + 1024 * 4  # the last norm
    answer_bytes = 8 * 64 * (MOST_CANDIDATES + 2 * 8) + 151936 * 4  # candidates of all rows, or the logits of one
    at_root_bytes = 64 * 151936 * 4 + 2 * answer_bytes
    assert last.buffers_bytes - first.buffers_bytes + at_root_bytes == kept_bytes + 9 * answer_bytes
    facts = hosts(8 * GB, last.total_bytes - 1)
    assert refusal(wish, facts).startswith("rank 1 on host1 needs 0.73 GB of memory")
    assert plan_memory(wish, hosts(8 * GB, last.total_bytes)).fits
