"""Damaged and hostile corpora: every one ends in a FormatError or a finding that names the file, in bounded memory."""

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tokenriver
from small_corpora import index_bytes, make_corpus, shard_bytes
from tokenriver.corpus import open_corpus
from tokenriver.errors import FormatError, LimitError, RiverError
from tokenriver.manifest import read_manifest, write_manifest
from tokenriver.verify import verify

SHARDS = [[[1, 2, 50256], [3, 50256], [4, 5, 6, 50256]], [[7, 50256], [8, 50256]]]
BIN, DOCS = "tokens_train_000000.bin", "tokens_train_000000.docs"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_corpus(tmp_path / "c", {"train": SHARDS})
    return tmp_path / "c"


def _use(folder: Path) -> None:
    """Everything a reader does; a damaged file may show here or not, but never as anything but a RiverError."""
    corpus = open_corpus(folder)
    corpus.read(0, corpus.num_tokens)
    out = np.empty((3, 4), np.int64)
    corpus.gather(np.array([0, 5, corpus.num_tokens - 4]), 4, out)
    for number in range(corpus.num_documents or 0):
        corpus.document(number)
        corpus.source(number)
    for position in range(corpus.num_tokens):
        corpus.document_at(position)


def _error(folder: Path) -> FormatError | None:
    try:
        _use(folder)
    except FormatError as error:
        return error
    return None


def _flips(data: bytes, places: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    for at in places:
        yield at, data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]


def test_the_undamaged_corpus_has_no_findings(folder: Path) -> None:
    assert verify(folder) == []
    _use(folder)


@pytest.mark.parametrize("name", [BIN, DOCS])
def test_every_flipped_byte_of_header_ids_and_index_is_found(folder: Path, name: str) -> None:
    path = folder / name
    data = path.read_bytes()
    # the header's reserved zeros are one class: every 31st of them
    places = [*range(64), *range(64, 1000, 31), *range(1000, len(data))] if name == BIN else range(len(data))
    for at, damaged in _flips(data, places):
        path.write_bytes(damaged)
        found = verify(folder)
        assert [Path(finding.path).name for finding in found] == [name], at
        error = _error(folder)
        assert error is None or str(path) in str(error)
        assert error is not None or name == DOCS or at >= 12, f"byte {at} of the header is read at opening"


@pytest.mark.parametrize("name", [BIN, DOCS])
def test_every_class_of_cut_is_found_at_once(folder: Path, name: str) -> None:
    path = folder / name
    data = path.read_bytes()
    lengths = {0, 1, 3, 4, 7, 8, 11, 12, 15, 16, 17, 512, 1023, 1024, 1025, *range(max(0, len(data) - 70), len(data))}
    for length in sorted(length for length in lengths if length < len(data)):
        path.write_bytes(data[:length])
        assert [(Path(f.path).name, f.what, f.got) for f in verify(folder)] == [(name, "size", f"{length} bytes")]
        with pytest.raises(FormatError, match=name):
            _use(folder)
    for more in (1, 2, 20, 4096):
        path.write_bytes(data + bytes(more))
        assert [f.what for f in verify(folder)] == ["size"]
        with pytest.raises(FormatError, match=name):
            _use(folder)


def test_a_manifest_with_any_byte_flipped_opens_nothing(folder: Path) -> None:
    path = folder / "manifest.json"
    data = path.read_bytes()
    for _, damaged in _flips(data, range(0, len(data), 3)):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"manifest\.json"):
            open_corpus(folder)
    found = verify(folder)
    assert [Path(finding.path).name for finding in found] == ["manifest.json"]


def test_several_damages_are_each_named(folder: Path) -> None:
    (folder / BIN).write_bytes((folder / BIN).read_bytes()[:-2])
    (folder / DOCS).unlink()
    (folder / "tokens_train_000001.bin").write_bytes(shard_bytes([7, 50256, 9, 50256]))
    (folder / "stray_train_000000.bin").write_bytes(shard_bytes([1]))
    found = {Path(finding.path).name: finding.what for finding in verify(folder)}
    assert found == {
        BIN: "size",
        DOCS: "file",
        "tokens_train_000001.bin": "sha256",
        "stray_train_000000.bin": "file",
    }


def test_with_a_damaged_manifest_the_shards_are_still_looked_at(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b"{}")
    (folder / BIN).write_bytes(b"short")
    (folder / "tokens_train_000001.docs").write_bytes(index_bytes([3]))
    names = [(Path(finding.path).name, finding.what) for finding in verify(folder)]
    assert [name for name, _ in names] == ["manifest.json", BIN, "tokens_train_000001.bin"]


def test_files_swapped_renamed_and_doubled_are_found(folder: Path) -> None:
    a, b = folder / BIN, folder / "tokens_train_000001.bin"
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)
    assert {Path(finding.path).name for finding in verify(folder)} == {a.name, b.name}
    with pytest.raises(FormatError, match="the file was replaced"):
        _use(folder)


def _link(path: Path, outside: Path) -> None:
    shutil.move(path, outside)
    path.symlink_to(outside)


def _pipe(path: Path, outside: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path, outside: Path) -> None:
    path.unlink()
    path.mkdir()


def _nothing(path: Path, outside: Path) -> None:
    path.unlink()


PUTS = {
    "a symbolic link": _link,
    "a folder, pipe or device, expected": _pipe,
    "a folder, pipe or device": _folder,
    "no such file": _nothing,
}


@pytest.mark.parametrize("words", PUTS)
@pytest.mark.parametrize("name", [BIN, DOCS])
def test_links_pipes_and_folders_in_place_of_a_file(folder: Path, tmp_path: Path, name: str, words: str) -> None:
    PUTS[words](folder / name, tmp_path / "outside")
    with pytest.raises(FormatError, match=f"{name}: got {words}"):
        _use(folder)
    assert {(finding.path, finding.what) for finding in verify(folder)} == {(str(folder / name), "file")}


def test_a_shard_that_claims_more_than_there_is(folder: Path) -> None:
    for count in (2**31 - 1, 2**30, 10, 0, -1, -(2**31)):
        data = (folder / BIN).read_bytes()
        (folder / BIN).write_bytes(data[:8] + struct.pack("<i", count) + data[12:])
        with pytest.raises(FormatError, match=BIN):
            _use(folder)


def test_ids_outside_the_vocabulary_are_found(folder: Path) -> None:
    manifest = read_manifest(folder)
    assert manifest.tokenizer is not None
    small = replace(manifest.tokenizer, vocab_size=50256, model_vocab_size=50304)
    write_manifest(folder, replace(manifest, tokenizer=small))
    found = [(Path(f.path).name, f.what, f.got, f.expected) for f in verify(folder)]
    assert found == [
        (BIN, "id at position 2", "50256", "0 to 50255"),
        ("tokens_train_000001.bin", "id at position 1", "50256", "0 to 50255"),
    ]


def test_origins_and_balance_that_do_not_add_up_are_found(folder: Path) -> None:
    manifest = read_manifest(folder)
    few = (replace(manifest.sources[0], records=4),)
    balance = {"ids": {"kept": {"train": 12, "val": 1}}, "documents": {"kept": {"train": 5}}, "bad_rows": {"null": 2}}
    write_manifest(folder, replace(manifest, sources=few, balance=balance))
    found = {(Path(f.path).name, f.what, f.got) for f in verify(folder)}
    assert found == {
        ("tokens_train_000001.docs", "origin of document 1", "record 4 of source 0"),
        ("manifest.json", "balance: ids of train", "12"),
        ("manifest.json", "balance: ids of val", "1"),
        ("bad_rows.jsonl", "bad rows listed", "0"),
    }
    for strange in ({"ids": 3, "documents": [], "bad_rows": "x"}, {"ids": {"kept": {"train": "x"}}}):
        write_manifest(folder, replace(manifest, balance=strange))
        assert {f.what for f in verify(folder)} == {"balance: ids of train", "balance: documents of train"}


def test_names_of_formats_and_kinds_never_import_a_module(folder: Path) -> None:
    manifest = read_manifest(folder)
    for name in ("os", "_bin", "no-such", ""):
        write_manifest(folder, replace(manifest, format=name))
        with pytest.raises(RiverError, match="formats: got"):
            open_corpus(folder).read(0, 1)
    for name in ("os.path", "a/b", "../x"):
        with pytest.raises(FormatError, match=r"manifest\.format"):
            write_manifest(folder, replace(manifest, format=name))


HOSTILE = """
import resource, struct, sys
from pathlib import Path
import numpy as np
from tokenriver.corpus import open_corpus
from tokenriver.errors import RiverError
from tokenriver.formats import _docindex, llmc, nanogpt, native
from tokenriver.verify import verify
from small_corpora import shard_bytes, sign
folder = Path(sys.argv[1])
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), used + (64 << 20)))
EDGES = [0, 1, -1, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), 2**59, 2**60 - 1]
refused = 0
for magic, version in ((20240520, 1), (20240801, 7)):
    for count in EDGES:
        path = folder / "a.bin"
        path.write_bytes(struct.pack("<2iI", magic, version, count % 2**32).ljust(1030, b"\\0"))
        for module in (llmc, native):
            try:
                module.open_reader(path)
            except RiverError:
                refused += 1
for count in EDGES:
    path = folder / "a.docs"
    path.write_bytes(b"TRDOCS01" + struct.pack("<q", count) + bytes(40))
    for num_tokens in (2, 2**31, 2**62):
        try:
            _docindex.open_index(path, num_tokens)
        except RiverError:
            refused += 1
# a header that claims more ids than fit the address space, in a sparse file that has them
with open(folder / "train.bin", "wb") as file:
    file.truncate(1 << 40)
try:
    open_corpus(folder / "train.bin")
except (RiverError, MemoryError, OSError):
    refused += 1
for text in ('{"a":' * 500_000, "[" * 1_000_000, "9" * 1_000_000, '"' + "x" * 1_000_000):
    (folder / "manifest.json").write_bytes(sign({"balance": {}}).replace(b"{}", text.encode()))
    for ask in (open_corpus, verify):
        try:
            assert ask(folder) != []
        except RiverError:
            refused += 1
print(refused)
"""


def test_hostile_numbers_cost_no_memory(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(tokenriver.__file__).parent.parent), str(Path(__file__).parent.parent)])
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    # 2 flavours x 11 counts x 2 readers, 11 counts x 3 sizes of an index, the sparse file, 4 texts (open; verify finds)
    assert int(done.stdout) == 44 + 33 + 1 + 4


def test_a_wrong_start_never_reads_outside_the_file(folder: Path) -> None:
    corpus = open_corpus(folder)
    out = np.zeros((1, 4), np.int64)
    for start in (-1, -12, -13, 10, 12, 2**31, 2**62, 2**63 - 1, -(2**63)):
        for _ in range(2):
            with pytest.raises(LimitError):
                corpus.gather(np.array([start]), 4, out)
    assert not out.any()
