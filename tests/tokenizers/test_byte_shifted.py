"""Bytes as ids, shifted by one: what differs from the plain ones."""

import pytest

from tokenriver.errors import LimitError
from tokenriver.tokenizers import byte, byte_shifted

SHIFTED = byte_shifted.load("byte-shifted")


def test_ids_are_the_bytes_plus_one_and_0_is_the_boundary() -> None:
    assert SHIFTED.encode("aé").tolist() == [0x62, 0xC4, 0xAA]
    assert (SHIFTED.bos_id, SHIFTED.eos_id, SHIFTED.vocab_size) == (0, 0, 257)
    assert SHIFTED.encode_framed([b"\x00\xff", b""], None, 0)[0].tolist() == [1, 256, 0, 0]
    assert SHIFTED.decode_bytes([1, 256, 0]) == b"\x00\xff<|endoftext|>"
    with pytest.raises(LimitError, match="got 257 at position 0"):
        SHIFTED.decode_bytes([257])


def test_it_is_another_tokenizer_than_the_plain_one() -> None:
    assert SHIFTED.fingerprint != byte.load("byte").fingerprint
