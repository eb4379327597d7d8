"""nanoGPT's meta.pkl: its few opcodes are followed, every other one is refused by name, and nothing is ever called."""

import os
import pickle
import pickletools
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tokenriver.errors import FormatError, LimitError
from tokenriver.formats import _meta

GOOD = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The characters of Tiny Shakespeare."""


def _letters(count: int) -> str:
    """Code points from the space on, without the surrogates."""
    return "".join(chr(i + 32 if i + 32 < 0xD800 else i + 32 + 0x800) for i in range(count))


def _meta_of(letters: str) -> dict[str, object]:
    """The dict as nanoGPT's script makes it."""
    stoi = {letter: i for i, letter in enumerate(letters)}
    return {"vocab_size": len(letters), "itos": dict(enumerate(stoi)), "stoi": stoi}


def _read(folder: Path, data: bytes) -> str:
    path = folder / "meta.pkl"
    path.write_bytes(data)
    return _meta.read_meta(path)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("letters", [GOOD, "x", _letters(3000), "\U0001f600\u4e2d\x00"])
def test_every_protocol_is_read(tmp_path: Path, protocol: int, letters: str) -> None:
    assert _read(tmp_path, pickle.dumps(_meta_of(letters), protocol=protocol)) == letters


@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 999, 1000, 1001, 2000, 3000, 5000, 6000, 70000])
def test_what_is_written_is_what_pickle_writes(tmp_path: Path, count: int) -> None:
    """Around one item, the widths of numbers, runs of 1000 items, frames of 64 KiB."""
    letters = _letters(count)
    written = _meta.write_meta(tmp_path / "meta.pkl", letters)
    data = (tmp_path / "meta.pkl").read_bytes()
    assert data == pickle.dumps(_meta_of(letters), protocol=4)
    assert (written.path.name, written.num_bytes) == ("meta.pkl", len(data))
    assert _meta.read_meta(tmp_path / "meta.pkl") == letters


def test_the_bytes_are_nanogpts() -> None:
    begin = bytes.fromhex(
        "80049" + "5b4020000000000007d94288c0a766f6361625f73697a65944b418c0469746f73947d94284b008c010a94"
    )
    assert _meta.pack_meta(GOOD).startswith(begin)
    assert len(_meta.pack_meta(GOOD)) == 703


def test_what_is_no_set_of_characters_is_not_written() -> None:
    for letters in ("abca", "a\ud800"):
        with pytest.raises(LimitError, match="characters: got one twice, or half of a pair"):
            _meta.pack_meta(letters)
    with pytest.raises(LimitError, match=r"got 300000, expected a meta\.pkl of less than 4194304 bytes"):
        _meta.pack_meta(_letters(300_000))


class _Runs:
    """Unpickled, it calls something."""

    def __init__(self, call: Callable[..., object], *given: object) -> None:
        self.call, self.given = call, given

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call, self.given


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("call", [os.system, subprocess.getoutput, eval, exec, os.rmdir, open])
def test_what_would_run_is_refused_and_does_not(tmp_path: Path, protocol: int, call: Callable[..., object]) -> None:
    canary = tmp_path / "canary"
    canary.mkdir()
    given = str(canary) if call in (os.rmdir, open) else f"rmdir {canary}"
    for meta in (_Runs(call, given), {**_meta_of(GOOD), "vocab_size": _Runs(call, given)}):
        with pytest.raises(FormatError, match=r"meta\.pkl: opcode behind byte \d+: got (STACK_)?GLOBAL, which a dict"):
            _read(tmp_path, pickle.dumps(meta, protocol=protocol))
    assert canary.is_dir()


NEEDED = set(_meta._STEPS)


@pytest.mark.parametrize("opcode", [op for op in pickletools.opcodes if op.name not in NEEDED], ids=lambda op: op.name)
def test_every_other_opcode_is_refused_by_name(tmp_path: Path, opcode: pickletools.OpcodeInfo) -> None:
    arguments = {"LONG4": struct.pack("<i", 1) + b"\x01", "FLOAT": b"1.0\n", "STRING": b"'a'\n", "LONG": b"1L\n"}
    argument = arguments.get(opcode.name, b"0\n0\n" if opcode.arg is not None else b"")
    if opcode.arg is not None and opcode.arg.n > 0:
        argument = bytes(opcode.arg.n)
    elif opcode.arg is not None and opcode.arg.n < -1:
        argument = bytes(8)
    with pytest.raises(FormatError, match=f"got {opcode.name}, which a dict of texts and integers does not need"):
        _read(tmp_path, opcode.code.encode("latin-1") + argument + b".")


def _dumps(**changes: object) -> bytes:
    return pickle.dumps(_meta_of("abc") | changes)


BAD = {
    "no dict": (pickle.dumps("abc"), "got 'abc', expected a dict of vocab_size, itos and stoi"),
    "a number": (pickle.dumps(5), "got 5, expected a dict"),
    "other keys": (_dumps(more=1), "got a dict of 4, expected a dict"),
    "size": (_dumps(vocab_size=4), "vocab_size: got 4, expected the number of characters in both dicts"),
    "size as text": (_dumps(vocab_size="3"), "vocab_size: got 3"),
    "no dict in it": (_dumps(itos=3), "vocab_size: got 3"),
    "a hole": (_dumps(itos={0: "a", 1: "b", 3: "c"}), r"itos\[2\]: got None, expected a character"),
    "two characters": (_dumps(itos={0: "a", 1: "bb", 2: "c"}), r"itos\[1\]: got 'bb'"),
    "a surrogate": (_dumps(itos={0: "a", 1: "\ud800", 2: "c"}), r"itos\[1\]: got"),
    "a dict for a character": (_dumps(itos={0: {}, 1: "b", 2: "c"}), r"itos\[0\]: got a dict of 0"),
    "not the inverse": (_dumps(stoi={"a": 0, "b": 2, "c": 1}), r"stoi\['b'\]: got 2, expected 1"),
    "a key twice": (b"\x80\x04}(K\x01K\x02K\x01K\x03u.", "got the key '1' twice"),
    "a dict as key": (b"\x80\x04}(}K\x02u.", "got a key of type dict"),
    "a truth as key": (b"(I01\nI5\nd.", "got a key of type bool"),
    "itself in it": (
        b"\x80\x04}\x94(\x8c\x04itosh\x00\x8c\x04stoih\x00\x8c\x0avocab_sizeK\x03u.",
        r"itos\[0\]: got None",
    ),
    "odd items": (b"\x80\x04}(K\x01u.", "items for something that is no dict"),
    "items for a number": (b"\x80\x04K\x01(K\x01K\x02u.", "items for something that is no dict"),
    "an empty stack": (b"\x80\x04u.", "opcode behind byte 2"),
    "no memo": (b"\x80\x04h\x05.", "opcode behind byte 2"),
    "an open mark": (b"\x80\x04(}.", "end at byte 4"),
    "two values": (b"\x80\x04}}.", "end at byte 4"),
    "more behind": (pickle.dumps({}) + b"x", "got 1 bytes more, expected one dict"),
    "no end": (pickle.dumps({})[:-1], "opcode behind byte"),
    "nothing": (b"", "opcode behind byte 0"),
    "a terabyte of text": (b"\x80\x04\x8d" + struct.pack("<Q", 1 << 40) + b"a.", "opcode behind byte"),
    "a long number": (b"I" + b"9" * 100_000 + b"\n.", "opcode behind byte"),
    "bad UTF-8": (b"\x80\x04\x8c\x01\xff.", "opcode behind byte"),
}


@pytest.mark.parametrize("name", BAD)
def test_anything_else_is_refused(tmp_path: Path, name: str) -> None:
    data, words = BAD[name]
    with pytest.raises(FormatError, match=words):
        _read(tmp_path, data)


def test_depth_and_size_are_bounded(tmp_path: Path) -> None:
    nested = b"\x80\x04" + b"}" * 200_000
    with pytest.raises(FormatError):
        _read(tmp_path, nested + b".")
    deep = b"\x80\x04}" + b"\x8c\x01a}" * 100_000 + b"s" * 100_000 + b"."
    with pytest.raises(FormatError, match="got a dict of 1"):
        _read(tmp_path, deep)
    (tmp_path / "meta.pkl").write_bytes(b"\x80\x04")
    os.truncate(tmp_path / "meta.pkl", 1 << 40)
    with pytest.raises(FormatError, match="size: got 1099511627776 bytes, expected less than 4194304"):
        _meta.read_meta(tmp_path / "meta.pkl")


def test_every_cut_and_flip_is_refused_or_another_vocabulary(tmp_path: Path) -> None:
    data = pickle.dumps(_meta_of("abc"), protocol=4)
    for size in range(len(data)):
        with pytest.raises(FormatError):
            _read(tmp_path, data[:size])
    for at in range(len(data)):
        for flip in (1, 2, 0x80, 0xFF):
            try:
                letters = _read(tmp_path, data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :])
            except FormatError:
                continue
            assert len(letters) == len(set(letters)) == 3
