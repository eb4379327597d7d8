"""Bytes as ids."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenriver.errors import LimitError
from tokenriver.tokenizers import byte

BYTE = byte.load("byte")


def test_ids_are_the_bytes_and_256_is_the_boundary() -> None:
    assert BYTE.encode("h\u00e9").tolist() == [104, 0xC3, 0xA9]
    assert (BYTE.bos_id, BYTE.eos_id, BYTE.pad_id, BYTE.vocab_size) == (256, 256, None, 257)
    assert BYTE.decode([104, 256, 0xC3, 0xA9]) == "h<|endoftext|>\u00e9"


@given(st.lists(st.binary(), max_size=5), st.sampled_from([None, 256]), st.sampled_from([None, 256]))
@settings(max_examples=60)
def test_batches_equal_a_loop(texts: list[bytes], before: int | None, after: int | None) -> None:
    wanted = [[*([before] if before else []), *text, *([after] if after else [])] for text in texts]
    ids, lengths = BYTE.encode_framed(texts, before, after)
    assert ids.dtype == np.uint32
    assert lengths.dtype == np.int64
    assert lengths.tolist() == [len(row) for row in wanted]
    assert ids.tolist() == [i for row in wanted for i in row]


def test_what_is_no_id_is_refused() -> None:
    with pytest.raises(LimitError, match="got 257 at position 1"):
        BYTE.decode_bytes([1, 257])
    with pytest.raises(LimitError, match="got -1 at position 0"):
        BYTE.decode_bytes([-1])


def test_half_a_character_is_shown_and_kept() -> None:
    assert BYTE.decode([0xC3]) == "\ufffd"
    assert BYTE.decode_bytes(np.array([0xC3], dtype=np.uint16)) == b"\xc3"
    assert BYTE.encode("\ud83d\udc4d \ud83d").tolist() == list("\U0001f44d \ufffd".encode())
