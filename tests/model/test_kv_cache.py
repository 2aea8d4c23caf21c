# python -m pytest tests/model/test_kv_cache.py
import numpy as np
import pytest

from dllama_py.errors import UsageError
from dllama_py.model.kv_cache import KvCache
from dllama_py.sharding.plan import make_plan
from tests.checkpoints import tiny_config


def cache(n_slots: int = 2, context: int = 200) -> KvCache:
    config = tiny_config()
    return KvCache(config, make_plan(config, 1)[0], n_slots, context, half=True)


def table(cache: KvCache, slot: int) -> list[int]:
    """A slot's page table: page number times 2 layers, -1 where there is none."""
    return np.ctypeslib.as_array((np.ctypeslib.ctypes.c_int64 * 4).from_address(cache.table_address(slot))).tolist()


def test_pages_are_taken_when_a_slot_reaches_them() -> None:
    pages = cache()
    pages.reach(0, 63)
    pages.reach(1, 0)
    pages.reach(0, 64)
    assert (table(pages, 0), table(pages, 1)) == ([0, 4, -1, -1], [2, -1, -1, -1])


def test_cut_gives_pages_back_and_keeps_the_one_in_use() -> None:
    pages = cache()
    pages.reach(0, 199)
    pages.cut(0, 65)
    assert table(pages, 0) == [0, 2, -1, -1]
    pages.reach(1, 64)
    assert table(pages, 1) == [4, 6, -1, -1]
    pages.cut(0, 0)
    assert table(pages, 0) == [-1] * 4


def test_every_slot_has_room_for_the_whole_context() -> None:
    pages = cache(n_slots=3)
    for slot in range(3):
        pages.reach(slot, 199)
    taken = [page for slot in range(3) for page in table(pages, slot)]
    assert sorted(taken) == list(range(0, 24, 2))


def test_beyond_the_context_is_refused() -> None:
    with pytest.raises(UsageError, match="position 200 is beyond the context of 200"):
        cache().reach(0, 200)


def test_bytes_count_both_layers_keys_and_values() -> None:
    assert cache().n_bytes == 2 * 4 * 64 * 2 * 2 * (4 * 16) * 2  # slots, pages, positions, layers, k and v, width, f16
