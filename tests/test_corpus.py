"""Opening, reading, documents, origins, text, pickles and forks; the scale that a laptop's limits allow."""

import gzip
import multiprocessing
import os
import pickle
import re
import shlex
import struct
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenriver
from small_corpora import TOKENIZER, index_bytes, make_corpus, river_of, send_sums, shard_bytes, sums
from tokenriver.corpus import open_corpus
from tokenriver.errors import FormatError, InputError, LimitError, MismatchError
from tokenriver.manifest import read_manifest, write_manifest

TRAIN = [[[1, 2, 50256], [3, 50256]], [[4, 50256]], [[5, 6, 7, 50256], [8, 50256], [9, 50256]]]
VAL = [[[11, 50256]]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_corpus(tmp_path / "c", {"train": TRAIN, "val": VAL})
    return tmp_path / "c"


def test_what_a_corpus_says_of_itself(folder: Path) -> None:
    corpus = open_corpus(folder)
    assert (corpus.num_tokens, corpus.num_documents, corpus.dtype) == (15, 6, np.dtype("uint16"))
    assert (corpus.split, corpus.splits, corpus.format, corpus.vocab_size) == (
        "train",
        ("train", "val"),
        "native",
        50257,
    )
    assert [shard.path.name for shard in corpus.shards] == [f"tokens_train_{i:06d}.bin" for i in range(3)]
    assert [(shard.num_tokens, shard.num_documents) for shard in corpus.shards] == [(5, 2), (2, 1), (8, 3)]
    assert corpus.manifest == read_manifest(folder)
    assert corpus.fingerprint == read_manifest(folder).river_fingerprint("train")
    assert corpus.fingerprint != open_corpus(folder, split="val").fingerprint
    assert corpus.assumptions == ()
    assert "15 uint16 ids, 3 shards" in repr(corpus)
    assert open_corpus(folder / "manifest.json").num_tokens == 15
    assert open_corpus(str(folder), split="val").read(0, 2).tolist() == [11, 50256]


def test_every_range_every_document_every_origin(folder: Path) -> None:
    corpus = open_corpus(folder)
    every = river_of(TRAIN).tolist()
    for start in range(16):
        for stop in range(start, 16):
            assert corpus.read(start, stop).tolist() == every[start:stop]
    documents = [document for shard in TRAIN for document in shard]
    assert [corpus.document(i).tolist() for i in range(6)] == documents
    assert [ids.tolist() for _, _, ids in corpus.walk()] == documents
    at = [i for i, document in enumerate(documents) for _ in document]
    assert [corpus.document_at(position) for position in range(15)] == at
    assert [corpus.doc_bounds(i) for i in range(6)] == [(0, 3), (3, 5), (5, 7), (7, 11), (11, 13), (13, 15)]
    assert [corpus.source(i) for i in range(6)] == [("a.jsonl", i) for i in range(6)]
    assert open_corpus(folder, split="val").source(0) == ("a.jsonl", 6)
    rooted = open_corpus(folder, source_root="/data")
    assert rooted.source(3) == ("/data/a.jsonl", 3)


@settings(max_examples=40)
@given(
    shards=st.lists(
        st.lists(st.lists(st.integers(0, 65535), min_size=1, max_size=6), min_size=1, max_size=5),
        min_size=1,
        max_size=5,
    )
)
def test_documents_of_any_corpus(tmp_path_factory: pytest.TempPathFactory, shards: list[list[list[int]]]) -> None:
    folder = tmp_path_factory.mktemp("c")
    make_corpus(folder, {"train": shards})
    corpus = open_corpus(folder)
    documents = [document for shard in shards for document in shard]
    position = 0
    for number, document in enumerate(documents):
        assert corpus.document(number).tolist() == document
        assert corpus.doc_bounds(number) == (position, position + len(document))
        assert {corpus.document_at(position + i) for i in range(len(document))} == {number}
        position += len(document)
    assert (corpus.num_tokens, corpus.num_documents) == (position, len(documents))
    out = np.empty((1, position), np.int64)
    corpus.gather(np.array([0]), position, out)
    assert out[0].tolist() == river_of(shards).tolist()


def test_what_is_not_there_is_refused(folder: Path, tmp_path: Path) -> None:
    corpus = open_corpus(folder)
    for index in (-1, 6, 2**63):
        for ask in (corpus.document, corpus.doc_bounds, corpus.source):
            with pytest.raises(LimitError, match=f"document: got {index}, expected 0 to 5"):
                ask(index)
    for position in (-1, 15):
        with pytest.raises(LimitError, match=f"position: got {position}, expected 0 to 14"):
            corpus.document_at(position)
    with pytest.raises(InputError, match="split: got 'test', expected one of train, val"):
        open_corpus(folder, split="test")
    with pytest.raises(InputError, match="got no such file, folder or glob"):
        open_corpus(tmp_path / "none")
    with pytest.raises(InputError, match="got no such file, folder or glob"):
        open_corpus(tmp_path / "*.bin")
    with pytest.raises(FormatError, match=r"got neither manifest\.json nor files of a known format"):
        open_corpus(tmp_path)
    with pytest.raises(FormatError, match="dtype: got uint16 in the manifest, expected uint32"):
        open_corpus(folder, dtype="uint32")


def test_an_unfinished_build_is_no_corpus_and_an_unfinished_append_is(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "b" / ".build").mkdir(parents=True)
    (tmp_path / "b" / "tokens_train_000000.bin").write_bytes(shard_bytes([1, 2]))
    with pytest.raises(FormatError, match="not committed"):
        open_corpus(tmp_path / "b")
    (folder / ".build").mkdir()
    assert open_corpus(folder).num_tokens == 15


def test_an_open_corpus_keeps_working_through_an_append(folder: Path) -> None:
    corpus = open_corpus(folder)
    before = corpus.read(0, 3).tolist()
    make_corpus(folder, {"train": [*TRAIN, [[12, 13, 50256]]], "val": VAL})
    assert corpus.num_tokens == 15
    assert corpus.read(0, 15).tolist() == river_of(TRAIN).tolist()
    assert corpus.read(0, 3).tolist() == before
    with pytest.raises(MismatchError, match="changed after it was opened"):
        pickle.loads(pickle.dumps(corpus))
    again = open_corpus(folder)
    assert again.num_tokens == 18
    assert again.fingerprint != corpus.fingerprint


def test_a_shard_that_was_replaced_is_noticed_when_it_is_opened(folder: Path) -> None:
    corpus = open_corpus(folder)
    (folder / "tokens_train_000001.bin").write_bytes(shard_bytes([1, 2, 3]))
    assert corpus.read(0, 5).tolist() == [1, 2, 50256, 3, 50256]
    with pytest.raises(FormatError, match=r"000001\.bin: got 3 uint16 ids, expected 2 uint16 ids"):
        corpus.read(5, 6)
    (folder / "tokens_train_000002.docs").write_bytes(index_bytes([8]))
    with pytest.raises(FormatError, match="documents: got 1, expected 3"):
        corpus.document(3)


def test_an_origin_outside_the_manifest_is_refused(folder: Path) -> None:
    for source in (1, -1, 2**31 - 1):
        (folder / "tokens_train_000001.docs").write_bytes(index_bytes([2], source=source))
        expected = "2: got none" if source == -1 else f"0: got {source}, expected one of the 1"
        with pytest.raises(FormatError, match=f"source of document {expected}"):
            open_corpus(folder).source(2)


# ------------------------------------------------------------------------------------------------ text


def test_text_where_the_tokenizer_is_known(folder: Path) -> None:
    corpus = open_corpus(folder)
    assert corpus.decode([31373, 995, 50256]) == "hello world<|endoftext|>"
    assert corpus.tokenizer is corpus.tokenizer
    assert open_corpus(folder, tokenizer="gpt2").decode([995]) == " world"
    with pytest.raises(MismatchError, match="tokenizer byte: fingerprint: got"):
        _ = open_corpus(folder, tokenizer="byte").tokenizer
    with pytest.raises(InputError):
        _ = open_corpus(folder, tokenizer="no_such_encoding").tokenizer


@pytest.mark.parametrize("name", ["no_such_encoding", "tokenizer.json", "../evil", "os.path", "/etc/passwd"])
def test_a_missing_tokenizer_is_one_warning_and_ids(folder: Path, name: str) -> None:
    manifest = read_manifest(folder)
    write_manifest(folder, replace(manifest, tokenizer=replace(TOKENIZER, name=name)))
    corpus = open_corpus(folder)
    with pytest.warns(UserWarning, match="ids are shown instead of text") as caught:
        assert corpus.decode(np.array([1, 50256], np.uint16)) == "⟨1⟩⟨50256⟩"
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert corpus.tokenizer is None
        assert corpus.decode([7]) == "⟨7⟩"
        assert corpus.decode([]) == ""


# ---------------------------------------------------------------------------- files without a manifest


def test_llmc_files_by_name_folder_and_glob(tmp_path: Path) -> None:
    for name, ids in (
        ("fw_train_000002", [5]),
        ("fw_train_000001", [3, 4]),
        ("fw_val_000000", [1, 2]),
        ("Z_train", [9]),
    ):
        (tmp_path / f"{name}.bin").write_bytes(shard_bytes(ids))
    corpus = open_corpus(tmp_path)
    assert corpus.read(0, 4).tolist() == [9, 3, 4, 5], "names in the order of their bytes"
    assert (corpus.splits, corpus.format, corpus.num_documents) == (("train", "val"), "llmc", None)
    assert open_corpus(tmp_path, split="val").read(0, 2).tolist() == [1, 2]
    assert open_corpus(tmp_path / "fw_val_000000.bin").read(0, 2).tolist() == [1, 2]
    assert open_corpus(f"{tmp_path}/fw_*.bin").read(0, 3).tolist() == [3, 4, 5]
    assert open_corpus(tmp_path).assumptions == (
        "no document bounds: the file has none",
        "ids are gpt2's: no larger id was seen in the sample",
    )
    with pytest.raises(InputError, match="split: got 'test', expected one of train, val"):
        open_corpus(tmp_path, split="test")
    with pytest.raises(FormatError, match="without document bounds"):
        corpus.document(0)
    with pytest.raises(FormatError, match="without document bounds"):
        corpus.document_at(0)
    (tmp_path / "x_train.bin").write_bytes(shard_bytes([1], "uint32"))
    with pytest.raises(FormatError, match="dtype: got shards of"):
        open_corpus(tmp_path)


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train.bin", "train"),
        ("val.bin", "val"),
        ("tiny_shakespeare_val.bin", "val"),
        ("edu_fineweb_val_000000.bin", "val"),
        ("validate.bin", "train"),
        ("interval_000.bin", "train"),
        ("val_set_train_1.bin", "train"),
        ("toy_000.bin", "train"),
        ("a.val.bin", "val"),
        ("a-val-1.bin", "val"),
    ],
)
def test_the_split_is_in_the_name(tmp_path: Path, name: str, split: str) -> None:
    (tmp_path / name).write_bytes(shard_bytes([1, 2]))
    assert open_corpus(tmp_path, split=split).splits == (split,)
    assert open_corpus(tmp_path / name).split == split


def test_dev_is_a_split_only_beside_the_file_that_it_was_parted_from(tmp_path: Path) -> None:
    for name in ("sft_packed.bin", "sft_dev_packed.bin", "web_dev_docs.bin"):
        (tmp_path / name).write_bytes(shard_bytes([1, 2]))
    corpus = open_corpus(tmp_path)
    assert corpus.splits == ("train", "val")
    assert [shard.path.name for shard in corpus.shards] == ["sft_packed.bin", "web_dev_docs.bin"]
    assert open_corpus(tmp_path / "sft_dev_packed.bin").split == "train"


def test_a_native_folder_as_an_llmc_reader_sees_it(folder: Path) -> None:
    corpus = open_corpus(folder, format="llmc")
    assert (corpus.format, corpus.manifest, corpus.num_documents) == ("llmc", None, 6), "by the index beside each shard"
    assert [corpus.document(i).tolist() for i in range(6)] == [document for shard in TRAIN for document in shard]
    assert corpus.read(0, 15).tolist() == river_of(TRAIN).tolist()
    single = open_corpus(folder / "tokens_train_000002.bin")
    assert (single.format, single.num_documents) == ("native", 3)
    assert single.document(1).tolist() == [8, 50256]
    with pytest.raises(FormatError, match="source of document 0: got 0, expected one of the 0"):
        single.source(0)


def test_nanogpt_files(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(np.array([1, 2, 50256], "<u2").tobytes())
    (tmp_path / "val.bin").write_bytes(np.array([4, 60000], "<u2").tobytes())
    corpus = open_corpus(tmp_path)
    assert (corpus.format, corpus.splits, corpus.read(0, 3).tolist()) == ("nanogpt", ("train", "val"), [1, 2, 50256])
    assert corpus.assumptions[0] == "ids are uint16: the file does not say"
    assert corpus.decode([31373]) == "hello"
    val = open_corpus(tmp_path, split="val")
    assert val.tokenizer is None, "60000 is no id of gpt2"
    assert val.decode([4]) == "⟨4⟩"
    assert val.vocab_size is None
    with pytest.raises(MismatchError, match="id: got 60000, expected at most 50256, the last of gpt2"):
        _ = open_corpus(tmp_path, split="val", tokenizer="gpt2").tokenizer
    wide = open_corpus(tmp_path / "val.bin", dtype="uint32")
    assert (wide.read(0, 1).tolist(), wide.assumptions) == (
        [4 + (60000 << 16)],
        ("no document bounds: the file has none",),
    )


def test_thirty_two_bit_ids_read_as_sixteen_are_remarked_on(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    path.write_bytes(np.arange(40_000, 90_000, dtype="<u4").tobytes())
    assert any("dtype='uint32'" in text for text in open_corpus(path).assumptions)
    assert not any("dtype" in text for text in open_corpus(path, dtype="uint32").assumptions)
    path.write_bytes(np.arange(50_000, dtype="<u2").tobytes())
    assert not any("dtype=" in text for text in open_corpus(path).assumptions)
    path.write_bytes(bytes(50_000))
    assert not any("dtype=" in text for text in open_corpus(path).assumptions)


def test_a_sampled_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    ids = np.random.default_rng(0).integers(0, 50000, 300_000).astype("<u2")

    def of(data: bytes, dtype: str | None = None) -> str:
        path.write_bytes(data)
        return open_corpus(path, dtype=dtype).fingerprint

    first = of(ids.tobytes())
    assert first.startswith("sampled:")
    assert of(ids.tobytes()) == first
    changed = [of(ids[:-1].tobytes()), of(ids.tobytes(), "uint32"), of(shard_bytes(ids.tolist()))]
    for at in (0, len(ids) - 1):
        other = ids.copy()
        other[at] ^= 1
        changed.append(of(other.tobytes()))
    assert len({first, *changed}) == 6


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.jsonl", b'{"text": "a"}\n', "jsonl"),
        ("a.jsonl.gz", gzip.compress(b'{"text": "a"}\n', mtime=0), "jsonl"),
        ("a.dat", b'{"text": "a"}\n', "jsonl"),
        ("a text.txt", b"hello", "text"),
        ("a.parquet", None, "parquet"),
    ],
)
def test_texts_in_place_of_ids_are_to_be_built_first(tmp_path: Path, name: str, data: bytes | None, kind: str) -> None:
    path = tmp_path / "in" / name
    path.parent.mkdir()
    if data is None:
        pq.write_table(pa.table({"text": ["a"]}), path)
    else:
        path.write_bytes(data)
    cure = f"it looks like {kind}: make a corpus of it first (tokenriver build {shlex.quote(str(path))} -o DIR)"
    with pytest.raises(FormatError, match=re.escape(cure)):
        open_corpus(path)
    with pytest.raises(FormatError, match=re.escape(cure)):
        tokenriver.convert(path, tmp_path / "out", format="nanogpt")
    if not name.endswith(".dat"):
        with pytest.raises(FormatError, match=f"nor files of a known format.* it looks like {kind}"):
            open_corpus(path.parent)
    assert not (tmp_path / "out").exists()


def test_strange_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(FormatError, match=r"a\.txt: got a file of no known format"):
        open_corpus(tmp_path / "a.txt")
    (tmp_path / "a.bin").write_bytes(shard_bytes([1]))
    (tmp_path / "b.bin").write_bytes(b"abcd")
    with pytest.raises(FormatError, match=r"got a\.bin \(llmc\) beside b\.bin \(nanogpt\), expected one format"):
        open_corpus(tmp_path / "*.bin")
    with pytest.raises(FormatError, match=r"got b\.bin beside a\.bin, expected one format; give a glob"):
        open_corpus(tmp_path)
    with pytest.raises(InputError, match="formats: got 'no-such'"):
        open_corpus(tmp_path / "a.bin", format="no-such")
    (tmp_path / "eval.bin").write_bytes(struct.pack("<3i", 20240522, 1, 1).ljust(1030, b"\0"))
    with pytest.raises(FormatError, match=r"eval\.bin: magic at byte 0: got 20240522.*an llm\.c evaluation file"):
        open_corpus(tmp_path / "eval.bin", format="llmc")


# ------------------------------------------------------------------------------- processes and limits


PROCESSES = {
    "spawn": multiprocessing.get_context("spawn").Process,
    "fork": multiprocessing.get_context("fork").Process,
}


@pytest.mark.parametrize("method", PROCESSES)
def test_a_used_corpus_goes_to_another_process(folder: Path, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    corpus = open_corpus("c")
    here = sums(corpus)
    data = pickle.dumps(corpus)
    assert len(data) < 1000
    monkeypatch.chdir("/")
    assert sums(pickle.loads(data)) == here
    answer = folder.parent / "answer"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside a thread
        process = PROCESSES[method](target=send_sums, args=(corpus, answer))
        process.start()
    process.join(120)
    assert process.exitcode == 0
    assert answer.read_text() == str(here)


def _run(code: str, *arguments: str) -> str:
    path = os.pathsep.join([str(Path(tokenriver.__file__).parent.parent), str(Path(__file__).parent)])
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


TEN_THOUSAND = """
import resource, sys
import numpy as np
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from tokenriver.corpus import open_corpus
corpus = open_corpus(sys.argv[1])
assert (corpus.num_tokens, corpus.num_documents, len(corpus.shards)) == (30000, 20000, 10000)
random = np.random.default_rng(0)
out = np.empty((600, 7), np.int64)
for _ in range(5):
    starts = random.integers(0, 30000 - 7, 600)
    corpus.gather(starts, 7, out)
    assert (out == (starts[:, None] + np.arange(7)) % 48).all()
held = [corpus.document(int(i)) for i in random.integers(0, 20000, 600)]
whole = np.empty((1, 30000), np.int64)
corpus.gather(np.array([0]), 30000, whole)
assert (whole[0] == np.arange(30000) % 48).all()
assert [int(corpus.document_at(p)) for p in (0, 1, 2, 3, 29999)] == [0, 1, 1, 2, 19999]
print(len(corpus._river.shelf))
"""


def test_ten_thousand_shards_under_a_limit_of_256_files(tmp_path: Path) -> None:
    manifest = make_corpus(tmp_path, {"train": [[[3 * i], [3 * i + 1, 3 * i + 2]] for i in range(16)]})
    shards = []
    for number in range(10_000):
        shard = manifest.shards[number % 16]
        name = f"tokens_train_{number:06d}"
        if number >= 16:
            for suffix in (".bin", ".docs"):
                os.link((tmp_path / shard.file).with_suffix(suffix), tmp_path / (name + suffix))
        shards.append(replace(shard, file=f"{name}.bin"))
    write_manifest(tmp_path, replace(manifest, shards=tuple(shards)))
    assert _run(TEN_THOUSAND, str(tmp_path)) == "64"


MEMORY = """
import resource, sys, gc
import numpy as np
from tokenriver.corpus import open_corpus
corpus = open_corpus(sys.argv[1])
out = np.empty((4, 129), np.int64)
random = np.random.default_rng(0)
starts = [random.integers(0, corpus.num_tokens - 129, 4) for _ in range(500)]
def private():
    rows = open("/proc/self/smaps_rollup").read().split()
    return int(rows[rows.index("Private_Dirty:") + 1]) + int(rows[rows.index("Private_Clean:") + 1])
def rounds(count):
    for _ in range(count):
        for s in starts:
            corpus.gather(s, 129, out)
rounds(10)
first = private()
rounds(190)
print(private() - first)
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells private memory")
@pytest.mark.parametrize("count", [1, 3])
def test_memory_is_flat_over_a_hundred_thousand_batches(tmp_path: Path, count: int) -> None:
    for number in range(count):
        (tmp_path / f"x_train_{number}.bin").write_bytes(shard_bytes([7] * 50_000))
    assert int(_run(MEMORY, str(tmp_path))) < 512, "kB more than after 5,000"


SPARSE = """
import sys, time
import numpy as np
import tokenriver, tokenriver.corpus, tokenriver.formats.nanogpt
def resident():
    rows = open("/proc/self/statm").read().split()
    return int(rows[1]) * 4096
before = resident()
corpus = tokenriver.open_corpus(sys.argv[1])
out = np.empty((32, 1025), np.int64)
corpus.gather(np.arange(32) * 31_000_000_000, 1025, out)
assert out.sum() == 0
assert corpus.read(999_999_999_998, 10**12).tolist() == [0, 77]
print((resident() - before) >> 20)
"""


def test_a_file_of_a_million_million_ids(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    with path.open("wb") as file:
        try:
            file.truncate(2 * 10**12)
        except OSError:
            pytest.fail(
                f"the file system of {tmp_path} holds no file of 2 TB, sparse or not; choose another --basetemp"
            )
        file.seek(2 * 10**12 - 2)
        file.write(b"\x4d\0")
    assert int(_run(SPARSE, str(path))) < 100, "MiB"


def test_what_is_read_holds_no_file(folder: Path) -> None:
    corpus = open_corpus(folder)
    document = corpus.document(0)
    assert corpus.read(0, 3).base is None
    assert document.base is None
    document[0] = 9
    assert corpus.document(0).tolist() == [1, 2, 50256]
