# python -m pytest tests/formats/test_safetensors.py
"""Shards and their index: the index is the only truth, and a damaged file is said by name."""

import json

import numpy as np
import pytest

from dllama_py.formats.checkpoint import open_checkpoint
from tests.checkpoints import own_folder
from tests.formats.spoiling import FIRST, INDEX, SECOND, edit_index, matrix, refused, save
from tests.golden import make_tiny_hf


def test_a_shard_that_is_gone(tmp_path):
    folder = own_folder(tmp_path / "a")
    (folder / SECOND).unlink()
    refused(folder, f"{SECOND}: the shard is missing, {INDEX} names it")


def test_a_shard_that_lacks_what_the_index_says(tmp_path):
    folder = own_folder(tmp_path / "a")
    edit_index(folder, **{"model.norm.weight": SECOND})
    refused(folder, f"says model.norm.weight is in {SECOND}, but that shard lacks it")


def test_a_file_beside_the_shards_is_left_alone(tmp_path):
    folder = own_folder(tmp_path / "a")
    save(folder / "model.safetensors", **{"model.norm.weight": np.zeros(128, np.float32)})
    checkpoint = open_checkpoint(folder)
    assert checkpoint.notes == (f"{folder}: model.safetensors left alone, not part of the checkpoint",)
    assert matrix(checkpoint, "final_norm").all()


def test_disjoint_shards_need_no_index(tmp_path):
    folder = own_folder(tmp_path / "a")
    (folder / INDEX).unlink()
    assert open_checkpoint(folder).notes == ()


def test_consolidated_weights_beside_shards_are_left_alone(tmp_path):
    folder = own_folder(tmp_path / "a")
    (folder / INDEX).unlink()
    save(folder / "consolidated.safetensors", **{"model.norm.weight": np.zeros(128, np.float32)})
    assert open_checkpoint(folder).notes == (
        f"{folder}: consolidated.safetensors left alone, not part of the checkpoint",
    )


def test_shards_that_overlap_need_an_index(tmp_path):
    folder = own_folder(tmp_path / "a")
    (folder / INDEX).unlink()
    save(folder / "zz.safetensors", **{"model.norm.weight": np.zeros(128, np.float32)})
    refused(folder, f"model.norm.weight is in both {FIRST} and zz.safetensors and there is no {INDEX}")


def test_an_index_that_points_elsewhere(tmp_path):
    folder = own_folder(tmp_path / "a")
    edit_index(folder, **{"model.norm.weight": "../b.safetensors"})
    refused(folder, "names the shard '../b.safetensors', expected a plain file name")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": {}}', '{"weight_map": {"a": 1}}', ""])
def test_an_index_that_is_none(tmp_path, text):
    folder = own_folder(tmp_path / "a")
    (folder / INDEX).write_text(text)
    refused(folder, INDEX)


def test_a_shard_that_is_a_pointer(tmp_path):
    folder = own_folder(tmp_path / "a")
    (folder / FIRST).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n")
    refused(folder, f"{FIRST}: is a Git LFS pointer")


def test_a_shard_cut_anywhere_is_refused(tmp_path):
    folder = own_folder(tmp_path / "a")
    whole = (folder / SECOND).read_bytes()
    for length in [*range(64), *range(64, len(whole), 9973), len(whole) - 1]:
        (folder / SECOND).write_bytes(whole[:length])
        refused(folder, SECOND)


def test_a_folder_without_shards_or_config(tmp_path):
    refused(tmp_path, "has no config.json")
    (tmp_path / "config.json").write_text(json.dumps(make_tiny_hf.MODELS["tiny-llama"]))
    refused(tmp_path, "has no .safetensors file")
