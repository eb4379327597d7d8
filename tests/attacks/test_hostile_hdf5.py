"""HDF5 files that lead elsewhere, lie about themselves, or were left by a writer that died."""

import os
import random
import resource
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from made_contents import made_content, made_target
from tokenriver.errors import FormatError, RiverError
from tokenriver.formats import _hdf5_filters, _hdf5_write, hdf5

IDS = np.arange(5000, dtype="<u2")


def _file(path: Path, *, data: NDArray[Any] = IDS, libver: str = "earliest", **how: object) -> Path:
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("tokens", data=data, **how)
    return path


def _refused(path: Path, *words: str) -> None:
    with pytest.raises(FormatError) as caught:
        hdf5.open_reader(path).read(0, 1)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert [word for word in words if word not in text] == []


# ----------------------------------------------------------------------------------- out of the file


def _soft(file: h5py.File) -> None:
    file["ids"], file["tokens"] = IDS, h5py.SoftLink("/ids")


def _loop(file: h5py.File) -> None:
    file["tokens"] = h5py.SoftLink("/tokens")


def _external_link(file: h5py.File) -> None:
    _file(Path(file.filename).with_name("other.h5"))
    file["tokens"] = h5py.ExternalLink("other.h5", "/tokens")


def _external_storage(file: h5py.File) -> None:
    secret = Path(file.filename).with_name("secret")
    secret.write_bytes(b"secret" * 1000)
    file.create_dataset("tokens", shape=(100,), dtype="<u2", external=[(str(secret), 0, 200)])


def _virtual(file: h5py.File) -> None:
    other = _file(Path(file.filename).with_name("other.h5"))
    layout = h5py.VirtualLayout(shape=(100,), dtype="<u2")
    layout[:] = h5py.VirtualSource(str(other), "tokens", shape=(5000,))[:100]
    file.create_virtual_dataset("tokens", layout)


def _plug_in(file: h5py.File) -> None:
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_chunk((100,))
    creation.set_filter(305, h5py.h5z.FLAG_OPTIONAL)
    h5py.h5d.create(file.id, b"tokens", h5py.h5t.STD_U16LE, h5py.h5s.create_simple((100,)), creation)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_soft, "got a soft or external link"),
        (_loop, "got a soft or external link"),
        (_external_link, "got a soft or external link"),
        (_external_storage, "got external storage"),
        (_virtual, "got a virtual dataset"),
        (_plug_in, "got filter 305, expected gzip, shuffle, fletcher32, lzf or none"),
    ],
)
def test_nothing_leads_out_of_the_file(tmp_path: Path, make: Callable[[h5py.File], None], words: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        make(file)
    _refused(tmp_path / "a.h5", words)


def _twelve_bits(file: h5py.File) -> None:
    kind = h5py.h5t.STD_U16LE.copy()
    kind.set_precision(12)
    h5py.h5d.create(file.id, b"tokens", kind, h5py.h5s.create_simple((100,)))


def _references(file: h5py.File) -> None:
    file.create_dataset("tokens", data=np.array([file.ref], h5py.ref_dtype))


def test_an_index_that_crashes_the_library_when_damaged_is_refused(tmp_path: Path) -> None:
    path = _file(tmp_path / "a.h5", data=IDS.reshape(50, 100), chunks=(8, 8), maxshape=(None, None), libver="latest")
    _refused(path, "got an index of kind 5 in a layout of version 4, expected one dimension that grows")


@pytest.mark.parametrize("kind", [b"FAHD", b"EAHD"])
def test_an_array_of_endless_length_is_not_walked(tmp_path: Path, kind: bytes) -> None:
    """Even where its checksum is right: here it is not, but the count is looked at first."""
    grows = None if kind == b"EAHD" else 5000
    path = _file(tmp_path / "a.h5", chunks=(512,), libver="latest", maxshape=(grows,))
    data = bytearray(path.read_bytes())
    at = data.index(kind) + (8 if kind == b"FAHD" else 44)
    data[at : at + 8] = (2**50).to_bytes(8, "little")
    path.write_bytes(data)
    _refused(path, f"got an index of {2**50} chunks, expected up to {len(data) // 8}")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda file: file.create_group("tokens"), "got a group or a type, expected a dataset"),
        (lambda file: file.create_group("ids"), "got no dataset 'tokens'"),
        (lambda file: file.create_dataset("tokens", data=np.ones(5)), "got values of another type"),
        (lambda file: file.create_dataset("tokens", data=np.ones(5, bool)), "got values of another type"),
        (lambda file: file.create_dataset("tokens", data=np.ones(5, [("a", "<u2")])), "got values of another type"),
        (lambda file: file.create_dataset("tokens", data="text"), "got values of another type"),
        (_twelve_bits, "got values of another type"),
        (_references, "got values of another type"),
        (lambda file: file.create_dataset("tokens", data=np.ones((2, 2, 2), int)), "got 3 dimensions, expected 1 or 2"),
        (lambda file: file.create_dataset("tokens", data=7), "got 0 dimensions, expected 1 or 2"),
        (lambda file: file.create_dataset("tokens", data=np.ones(0, int)), "got 0 ids, expected at least 1"),
        (lambda file: file.create_dataset("tokens", shape=None, dtype=int), "tokens"),
    ],
)
def test_what_are_no_ids_is_refused(tmp_path: Path, make: Callable[[h5py.File], object], words: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        make(file)
    _refused(tmp_path / "a.h5", words)


@pytest.mark.parametrize("value", [2.5, -3, 0, 5001, 2**63, "5000", np.array([1, 2]), np.ones(0, int), b"5000"])
def test_a_count_that_cannot_be_is_refused(tmp_path: Path, value: object) -> None:
    _file(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["tokens"].attrs["token_count"] = np.uint64(value) if isinstance(value, int) and value > 2**62 else value
    _refused(tmp_path / "a.h5", "got")


def test_two_counts_must_agree(tmp_path: Path) -> None:
    _file(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file.attrs["token_count"], file["tokens"].attrs["token_count"] = 7, 8
    _refused(tmp_path / "a.h5", "token_count: got 8 at the dataset and 7 at the file")


# -------------------------------------------------------------------------------------- bombs and lies


def test_a_small_file_with_a_huge_dataset_is_refused(tmp_path: Path) -> None:
    for name, how in (
        ("chunks", {"chunks": (1 << 20,)}),
        ("filters", {"chunks": (1 << 20,), "compression": "gzip"}),
        ("run", {}),
    ):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file.create_dataset("tokens", shape=(2**43,), dtype="<u2", **how)
        _refused(tmp_path / f"{name}.h5", "its writer died")


def test_chunks_that_were_never_written_are_no_zeros(tmp_path: Path) -> None:
    for versions in ("earliest", "latest"):
        with h5py.File(tmp_path / "a.h5", "w", libver=versions) as file:
            found = file.create_dataset("tokens", shape=(5000,), maxshape=(None,), chunks=(512,), dtype="<u2")
            found[:1000], found[1536:] = 1, 2
        _refused(tmp_path / "a.h5", "chunk 2: got none, expected ids")
        with h5py.File(tmp_path / "a.h5", "a") as file:
            file["tokens"].attrs["token_count"] = 1024
        assert hdf5.open_reader(tmp_path / "a.h5").read(0, 1024).tolist() == [1] * 1000 + [0] * 24


@pytest.mark.parametrize("versions", ["earliest", "latest"])
def test_a_gzip_bomb_costs_a_chunk(tmp_path: Path, versions: str) -> None:
    path = _file(tmp_path / "a.h5", chunks=(5000,), compression="gzip", libver=versions)
    bomb = zlib.compress(bytes(1 << 23), 9)
    with h5py.File(path, "a", libver=versions) as file:
        file["tokens"].id.write_direct_chunk((0,), bomb)
    _refused(path, "cut off or makes over")


@pytest.mark.parametrize(
    ("filters", "data", "words"),
    [
        ([1], b"no gzip", "expected a gzip stream"),
        ([1], zlib.compress(bytes(200))[:-9], "cut off or makes over"),
        ([1], zlib.compress(bytes(150)), "got 150 decoded bytes, expected 200"),
        ([32000], bytes([31, 1, 2]), "breaks at byte"),
        ([32000], bytes([0, 7, 0xE0, 255, 5]), "breaks at byte"),
        ([32000], bytes([0, 7]) + bytes([0xE0, 255, 0]) * 9, "over 204 bytes"),
        ([32000], bytes([0]), "breaks at byte"),
        ([32000], bytes([0, 7, 0x20]), "breaks at byte"),
        ([3], b"abc", "expected a fletcher32 checksum"),
        ([3], bytes(200) + b"abcd", "got a fletcher32 checksum of 0x64636261, expected 0x00000000"),
        ([2], bytes(199), "got 199 decoded bytes, expected 200"),
        ([], bytes(201), "got 201 decoded bytes, expected 200"),
    ],
)
def test_chunks_that_no_filter_made(filters: list[int], data: bytes, words: str) -> None:
    with pytest.raises(_hdf5_filters.BadChunkError, match=words):
        _hdf5_filters.decode(data, filters, 0, 200, 2)


def test_filtered_chunks_have_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("tokens", shape=(2**25 + 1,), chunks=(2**25 + 1,), dtype="<u2", compression="gzip")
        file["tokens"].id.write_direct_chunk((0,), zlib.compress(bytes(2**26 + 2)))
    _refused(path, "got filtered chunks of 67108866 bytes, expected up to 67108864")


def test_two_chunks_on_the_same_bytes_are_refused(tmp_path: Path) -> None:
    path = _file(tmp_path / "a.h5", data=IDS[:1024], chunks=(512,))
    with h5py.File(path) as file:
        places = [file["tokens"].id.get_chunk_info(number).byte_offset for number in range(2)]
    data = path.read_bytes()
    path.write_bytes(data.replace(places[1].to_bytes(8, "little"), (places[0] + 2).to_bytes(8, "little")))
    _refused(path, "got chunks [0, 1] on the same bytes")
    path.write_bytes(data.replace(places[1].to_bytes(8, "little"), (len(data) - 2).to_bytes(8, "little")))
    _refused(path, "chunk 1: got 1024 bytes at byte")
    path.write_bytes(data.replace(places[1].to_bytes(8, "little"), (2**63).to_bytes(8, "little")))
    _refused(path, f"{2**63}, expected below")


def test_a_text_on_a_damaged_heap_is_refused_at_once(tmp_path: Path) -> None:
    """The C library runs for ever on these."""
    for versions in ("earliest", "latest"):
        path = _file(tmp_path / "a.h5", libver=versions)
        with h5py.File(path, "a", libver=versions) as file:
            file["tokens"].attrs["sha256"] = "ab" * 32
        data = path.read_bytes()
        assert hdf5.stored_sha256(path) == "ab" * 32
        at = data.index(b"GCOL")
        for place in (0, 8, 9, 15, 16, 24, 25, 31, 32, 40):
            for value in (0, 1, 128, 255):
                path.write_bytes(data[: at + place] + bytes([value]) + data[at + place + 1 :])
                with suppress(FormatError):
                    assert hdf5.stored_sha256(path) == "ab" * 32


# ------------------------------------------------------------------------------------------ dead writers


@pytest.mark.parametrize("layout", ["", "lesson"])
def test_every_cut_is_refused(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "a.h5"
    hdf5.write(path, made_content(IDS[:300]), made_target(layout=layout))
    data = path.read_bytes()
    for length in [*range(0, len(data), 41), len(data) - 1]:
        path.write_bytes(data[:length])
        _refused(path, "expected")
    path.write_bytes(data + b"\0")
    _refused(path, "its writer died before it could say how long the file is")


@pytest.mark.parametrize("layout", ["", "lesson"])
def test_no_flipped_bit_of_the_structure_goes_unseen(tmp_path: Path, layout: str) -> None:
    """Every piece of it has a checksum, the text of the lesson's sha256 aside, which is compared with the ids."""
    path = tmp_path / "a.h5"
    style = hdf5.STYLES[layout]
    _hdf5_write.write_ids(path, made_content(IDS[:300]), "uint16", replace(style, chunk=100 if style.live else 0))
    data = path.read_bytes()
    with h5py.File(path) as file:
        chunks = [file["tokens"].id.get_chunk_info(number) for number in range(3 if style.live else 1)]
    ids = {at for chunk in chunks for at in range(chunk.byte_offset, chunk.byte_offset + chunk.size)}
    seen = 0
    for place in range(len(data)):
        if place in ids or (data[place] == 0 and place % 16):
            continue
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        try:
            assert hdf5.open_reader(path).read(0, 300).tolist() == list(range(300))
        except FormatError:
            seen += 1
    assert seen > 200


_WRITER = """
import os, signal, sys, h5py, numpy as np
mode, path = sys.argv[1:]
with h5py.File(path, "w", libver="latest" if mode == "live" else "earliest") as file:
    found = file.create_dataset("tokens", shape=(0,), maxshape=(None,), chunks=(65536,), dtype="<u2")
    if mode == "live":
        file.swmr_mode = True
    for number in range(100):
        found.resize(((number + 1) * 65536,))
        found[number * 65536 :] = number
        if number == 10 or mode == "live":
            file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("mode", "words"), [("live", "in SWMR mode, or died"), ("plain", "its writer died")])
def test_a_killed_writer_is_told(tmp_path: Path, mode: str, words: str) -> None:
    path = tmp_path / "a.h5"
    died = subprocess.run([sys.executable, "-c", _WRITER, mode, str(path)], check=False)
    assert died.returncode == -signal.SIGKILL
    _refused(path, words)


def test_other_heads_are_refused(tmp_path: Path) -> None:
    path = _file(tmp_path / "a.h5")
    data = path.read_bytes()
    for at, value, words in (
        (0, 0, "signature at byte 0"),
        (8, 9, "superblock version at byte 8: got 9, expected 0 to 3"),
        (13, 4, "sizes of addresses at byte 13: got [4, 8], expected 8 and 8"),
        (24, 1, "start address at byte 24: got 1, expected 0"),
        (48, 0, "driver block at byte 48"),
    ):
        path.write_bytes(data[:at] + bytes([value]) + data[at + 1 :])
        _refused(path, words)
    with h5py.File(path, "w", userblock_size=512) as file:
        file["tokens"] = IDS
    _refused(path, "signature at byte 0")


# -------------------------------------------------------------------------------------------- mutations

KINDS: list[dict[str, Any]] = [
    {},
    {"chunks": (512,)},
    {"chunks": (512,), "libver": "latest", "maxshape": (None,)},
    {"chunks": (512,), "libver": "latest"},
    {"chunks": (512,), "compression": "gzip", "shuffle": True, "fletcher32": True},
    {"chunks": (512,), "compression": "lzf", "libver": "latest"},
    {"chunks": (8, 30), "data": IDS.reshape(50, 100)},
    {"chunks": (8, 100), "data": IDS.reshape(50, 100), "maxshape": (None, 100), "libver": "latest"},
]


def _mutate_all(folder: Path, bases: list[bytes], rounds: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    signal.alarm(300)
    path = folder / f"{os.getpid()}.h5"
    for number in range(rounds):
        rng = random.Random(number)
        data = bytearray(bases[number % len(bases)])
        used = [at for at in range(len(data)) if data[at]] if number % 3 else range(len(data))
        for _ in range(rng.choice([1, 1, 2, 4])):
            data[rng.choice(used)] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
        path.write_bytes(data)
        try:
            reader = hdf5.open_reader(path)
            reader.read(0, reader.num_tokens)
            hdf5.stored_sha256(path)
        except RiverError:
            pass


def _bases(folder: Path) -> list[bytes]:
    bases = []
    for how in KINDS:
        path = _file(folder / "base.h5", **how)
        with h5py.File(path, "a") as file:
            file["tokens"].attrs["token_count"], file["tokens"].attrs["sha256"] = 5000, "ab" * 32
        bases.append(path.read_bytes())
    return bases


@pytest.mark.parametrize("rounds", [240, pytest.param(40_000, marks=[pytest.mark.slow, pytest.mark.long])])
def test_mutated_files_end_in_ids_or_in_a_refusal(memory: Path, rounds: int) -> None:
    """In a child, as a crash of the C library would take this process along."""
    bases = _bases(memory)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _mutate_all(memory, bases, rounds)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
