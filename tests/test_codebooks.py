# python -m pytest tests/test_codebooks.py
"""Codebooks are the tables of the gguf package, and so of ggml."""

import gguf
import numpy as np
import pytest

from dllama_py import codebooks
from dllama_py.codebook_blocks import with_eighth_sign

BOOKS = {
    "IQ2_XXS": codebooks.IQ2_XXS_BOOK,
    "IQ2_XS": codebooks.IQ2_XS_BOOK,
    "IQ2_S": codebooks.IQ2_S_BOOK,
    "IQ3_XXS": codebooks.IQ3_XXS_BOOK,
    "IQ3_S": codebooks.IQ3_S_BOOK,
    "IQ1_S": codebooks.IQ1_BOOK,
}


@pytest.mark.parametrize("name", BOOKS)
def test_words_are_those_of_the_gguf_package(name: str) -> None:
    oracle = getattr(gguf.quants, name)
    oracle.init_grid()
    words = codebooks.codewords_of(BOOKS[name])
    np.testing.assert_array_equal(words, oracle.grid.reshape(oracle.grid_shape))


def test_levels_are_those_of_the_gguf_package() -> None:
    assert codebooks.IQ4_LEVELS == gguf.quants.IQ4_NL.kvalues
    assert codebooks.MXFP4_LEVELS == gguf.quants.MXFP4.kvalues


def test_the_eighth_sign_is_that_of_the_gguf_package() -> None:
    assert with_eighth_sign(np.arange(128)).tolist() == list(gguf.quants.IQ2_XXS.ksigns)
