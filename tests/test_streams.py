"""Archives as blocks: many members and frames, and damage that must never look like a shorter file."""

import random
import tracemalloc
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from source_cases import SKIPPABLE, gz, zst
from tokenriver.errors import InputError
from tokenriver.streams import MAX_WINDOW, read_blocks, read_range, sniff_compression

TEXT = "".join(random.Random(7).choices("abcdefgh \n\u00e9", k=200_000)).encode()


def decoded(path: Path, block_bytes: int = 1 << 20) -> bytes:
    head = path.read_bytes()[:8]
    blocks = list(read_blocks(path, sniff_compression(head), block_bytes=block_bytes))
    assert all(0 < len(block) <= block_bytes for block in blocks)
    return b"".join(blocks)


def outcome(path: Path, compression: str) -> tuple[bytes, str]:
    """What was read, and the text of the InputError that ended it; no other exception is caught."""
    got = []
    try:
        for block in read_blocks(path, compression):
            got.append(block)
    except InputError as error:
        return b"".join(got), str(error)
    return b"".join(got), ""


def write(folder: Path, data: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(data)
    return path


ARCHIVES = {
    "plain": (TEXT, TEXT),
    "gzip": (gz(TEXT), TEXT),
    "gzip members": (gz(b"ab") + gz(b"") + gz(TEXT), b"ab" + TEXT),
    "gzip padded with zeros": (gz(TEXT) + b"\0" * 1000 + gz(b"x") + b"\0" * 70_000, TEXT + b"x"),
    "gzip of nothing": (gz(b""), b""),
    "zstd": (zst(TEXT), TEXT),
    "zstd frames": (zst(b"ab") + zst(b"") + zst(TEXT), b"ab" + TEXT),
    "zstd skippable first": (SKIPPABLE + zst(TEXT), TEXT),
    "zstd skippable between": (zst(b"ab") + SKIPPABLE + zst(TEXT) + SKIPPABLE, b"ab" + TEXT),
    "zstd of nothing": (zst(b""), b""),
    "zstd runs": (zst(b"\0" * 3_000_000), b"\0" * 3_000_000),
    "zstd without sizes": (zstandard.ZstdCompressor(write_content_size=False).compress(TEXT), TEXT),
}


@pytest.mark.parametrize("block_bytes", [1 << 20, 1000, 7])
@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_what_was_put_in(name: str, block_bytes: int, tmp_path: Path) -> None:
    raw, content = ARCHIVES[name]
    if block_bytes < 1000:
        raw, content = (raw, content) if len(content) < 1000 else ARCHIVES["gzip of nothing"]
    assert decoded(write(tmp_path, raw), block_bytes) == content


@pytest.mark.parametrize("name", ARCHIVES)
def test_the_raw_bytes_are_shown_in_order(name: str, tmp_path: Path) -> None:
    raw, _ = ARCHIVES[name]
    seen: list[bytes] = []
    for _ in read_blocks(write(tmp_path, raw), sniff_compression(raw), on_raw=seen.append):
        pass
    assert b"".join(seen) == raw


@pytest.mark.parametrize("make", [gz, zst])
def test_every_cut_is_an_error_after_the_bytes_before_it(make: object, tmp_path: Path) -> None:
    assert callable(make)
    first, second = make(b"first " * 50), make(TEXT[:300])
    whole = b"first " * 50 + TEXT[:300]
    for length in range(1, len(first) + len(second)):
        path = write(tmp_path, (first + second)[:length])
        got, error = outcome(path, sniff_compression(first))
        if length == len(first):  # the end of a member is a legal end
            assert (got, error) == (b"first " * 50, "")
            continue
        assert whole.startswith(got)
        assert str(path) in error
        assert f"after {len(got)} decompressed bytes" in error


@settings(max_examples=150)
@given(st.sampled_from(["gzip", "zstd"]), st.integers(0, 2**32), st.integers(1, 255))
def test_a_flipped_byte_is_an_error_or_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, kind: str, place: int, change: int
) -> None:
    # gzip's time stamp and name, and zstd's unused bits, carry no text
    raw = bytearray((gz if kind == "gzip" else zst)(TEXT[:5000]))
    raw[4 + place % (len(raw) - 4)] ^= change
    path = write(tmp_path_factory.mktemp("flip"), bytes(raw))
    got, error = outcome(path, kind)
    assert str(path) in error if error else got == TEXT[:5000]


@settings(max_examples=100)
@given(st.binary(max_size=300), st.sampled_from([b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18", b""]))
def test_hostile_bytes_give_input_errors_only(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes, head: bytes
) -> None:
    path = write(tmp_path_factory.mktemp("hostile"), head + tail)
    for compression in ("gzip", "zstd"):
        _, error = outcome(path, compression)
        assert not error or str(path) in error


def test_a_window_that_needs_too_much_memory_is_refused(tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=31, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path = write(tmp_path, compressor.compress(b"x" * 1000) + compressor.flush())
    with pytest.raises(InputError, match=f"got {1 << 31} bytes, expected at most {MAX_WINDOW}; .*--long=27"):
        list(read_blocks(path, "zstd"))


def test_a_window_of_128_mib_is_read(tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path = write(tmp_path, compressor.compress(TEXT) + compressor.flush())
    assert decoded(path) == TEXT


def test_a_file_made_with_a_dictionary_is_refused(tmp_path: Path) -> None:
    words = zstandard.train_dictionary(2000, [TEXT[i : i + 300] for i in range(0, 60_000, 300)])
    path = write(tmp_path, zstandard.ZstdCompressor(dict_data=words).compress(TEXT))
    with pytest.raises(InputError, match=f"number {words.dict_id()}, expected none"):
        list(read_blocks(path, "zstd"))


@pytest.mark.parametrize(("make", "kind"), [(zst, "zstd"), (gz, "gzip")])
def test_a_bomb_is_read_in_bounded_memory(make: object, kind: str, tmp_path: Path) -> None:
    assert callable(make)
    path = write(tmp_path, make(bytes(64 << 20)))
    tracemalloc.start()
    total = sum(map(len, read_blocks(path, kind)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 64 << 20
    assert peak < 8 << 20


def test_thousands_of_tiny_members_and_frames(tmp_path: Path) -> None:
    for make in (gz, zst):
        path = write(tmp_path, make(b"ab") * 20_000)
        assert decoded(path) == b"ab" * 20_000


@pytest.mark.parametrize("tail", [b"garbage", b"\0\0garbage", zlib.compress(b"x")])
def test_what_follows_an_archive_is_not_ignored(tail: bytes, tmp_path: Path) -> None:
    for make, kind in ((gz, "gzip"), (zst, "zstd")):
        path = write(tmp_path, make(TEXT) + tail)
        with pytest.raises(InputError, match=r"file: .*at byte \d+ of the archive, after \d+ decompressed bytes"):
            list(read_blocks(path, kind))


def test_a_range_is_those_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, TEXT)
    for start, stop in ((0, len(TEXT)), (5, 5), (10, 3000), (len(TEXT) - 3, len(TEXT) + 100)):
        assert b"".join(read_range(path, start, stop, block_bytes=999)) == TEXT[start:stop]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent: cannot read"):
        list(read_blocks(tmp_path / "absent", ""))


def test_compression_is_told_by_content() -> None:
    assert sniff_compression(gz(b"")) == "gzip"
    assert sniff_compression(zst(b"")) == "zstd"
    assert all(sniff_compression(bytes([0x50 + i]) + SKIPPABLE[1:]) == "zstd" for i in range(16))
    assert [sniff_compression(head) for head in (b"", b"\x1f", b"{", b"\x60\x2a\x4d\x18")] == [""] * 4
