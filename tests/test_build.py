"""Text to corpus, as a user sees it: options, splits, bounds, bad rows, appending, refusals."""

import gzip
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import tokenriver
from golden_data import golden
from small_builds import (
    EOS,
    corpus_files,
    documents,
    files_of,
    framed,
    manifest_of,
    river,
    small_build,
    some_texts,
    write_rows,
)
from tokenriver.errors import FormatError, InputError, LimitError, MismatchError
from tokenriver.tokenizers import _fast
from tokenriver.types import Ids, Int64

pytestmark = pytest.mark.usefixtures("quick_disk")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return write_rows(tmp_path / "in" / "rows.jsonl", some_texts(30))


# ------------------------------------------------------------------------------------------- what comes out


def test_a_corpus_is_shards_indexes_and_a_manifest(tmp_path: Path, rows: Path) -> None:
    report = small_build(rows, tmp_path / "out", val_fraction=0.3, shard_tokens=1000, name="web")
    found = files_of(tmp_path / "out")
    shards = report.splits["train"]["shards"]
    assert shards >= 2
    names = [f"web_train_{i:06d}" for i in range(shards)] + ["web_val_000000"]
    assert sorted(found) == sorted([*(n + e for n in names for e in (".bin", ".docs")), "manifest.json"])
    assert tokenriver.verify(tmp_path / "out", against_inputs=True, inputs_root=rows.parent) == []
    manifest = manifest_of(tmp_path / "out")
    assert manifest["sources"]["path"] == ["rows.jsonl"]
    assert manifest["sources"]["size"] == [rows.stat().st_size]
    assert manifest["sources"]["records"] == [30]
    assert manifest["tokenizer"]["model_vocab_size"] == 384
    assert (report.num_documents, report.num_tokens) == (30, sum(map(len, framed(some_texts(30)))))
    assert (report.units, report.resumed, report.complete_before, report.bad_rows) == (report.units, 0, False, None)
    assert report.as_dict()["path"] == str(tmp_path / "out")
    assert json.dumps(report.as_dict())


def test_the_digest_of_an_input_is_that_of_its_file_or_of_its_blocks(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    small = write_rows(tmp_path / "in" / "a.jsonl", ["one"])
    large = write_rows(tmp_path / "in" / "b.jsonl", some_texts(40))
    packed = tmp_path / "in" / "c.jsonl.gz"
    packed.write_bytes(gzip.compress(write_rows(tmp_path / "c", some_texts(99)).read_bytes(), mtime=0))
    small_build(tmp_path / "in", tmp_path / "out")
    data = large.read_bytes()
    blocks = b"".join(hashlib.sha256(data[i : i + 1024]).digest() for i in range(0, len(data), 1024))
    expected = [
        hashlib.sha256(small.read_bytes()).hexdigest(),
        hashlib.sha256(blocks).hexdigest(),
        hashlib.sha256(packed.read_bytes()).hexdigest(),
    ]
    manifest = manifest_of(tmp_path / "out")
    assert manifest["sources"]["sha256"] == expected
    assert manifest["options"]["digest_block_bytes"] == 1024


def test_text_that_spells_a_control_token_is_text(tmp_path: Path) -> None:
    """R012, law 7."""
    path = write_rows(tmp_path / "a.jsonl", ["before", "a<|endoftext|>b", "after"])
    small_build(path, tmp_path / "out", tokenizer="gpt2")
    ids = river(tmp_path / "out")
    assert ids.count(50256) == 3
    assert documents(tmp_path / "out")[1][0] == [64, 27, 91, 437, 1659, 5239, 91, 29, 65, 50256]
    corpus = tokenriver.open_corpus(tmp_path / "out")
    assert corpus.decode(corpus.document(1)[:-1]) == "a<|endoftext|>b"


@pytest.mark.parametrize(
    ("framing", "before", "after"), [("eos-after", None, EOS), ("eos-before", EOS, None), ("none", None, None)]
)
def test_framing(tmp_path: Path, rows: Path, framing: str, before: int | None, after: int | None) -> None:
    small_build(rows, tmp_path / "out", framing=framing)
    assert [ids for ids, _, _ in documents(tmp_path / "out")] == framed(some_texts(30), before, after)
    assert manifest_of(tmp_path / "out")["framing"] == framing
    balance = manifest_of(tmp_path / "out")["balance"]["ids"]
    assert balance["framing"] == (0 if framing == "none" else 30)


def test_plain_text_with_and_without_a_separator(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n\ntwo\r\n\n\n\nthree")
    expected = {
        None: [path.read_bytes()],
        "blank-line": [b"one\n\n", b"two\r\n\n", b"\n\n", b"three"],
        "\n\n": [b"one", b"two\r", b"three"],
    }
    for number, (separator, texts) in enumerate(expected.items()):
        small_build(path, tmp_path / str(number), separator=separator)
        assert [ids for ids, _, _ in documents(tmp_path / str(number))] == framed(texts)
    with pytest.raises(InputError, match="separator: got an empty text"):
        small_build(path, tmp_path / "out", separator="")


def test_tiny_shakespeare_as_llmc_writes_it(tmp_path: Path) -> None:
    """The shards of llm.c's own script, byte for byte."""
    expected = json.loads(golden("tinyshakespeare_outputs.json").read_bytes())["llmc"]
    options = {"like": "llmc", "tokenizer": "gpt2", "separator": "blank-line", "val_tokens": 32768}
    small_build(golden("inputs/tinyshakespeare.txt"), tmp_path / "out", unit_bytes=1 << 17, **options)
    for split in ("train", "val"):
        data = (tmp_path / "out" / f"tokens_{split}_000000.bin").read_bytes()
        assert hashlib.sha256(data).hexdigest() == expected[f"tiny_shakespeare_{split}.bin"]["sha256"]


def test_presets_give_way_to_options(tmp_path: Path, rows: Path) -> None:
    small_build(rows, tmp_path / "like", like="llmc", shard_tokens=700)
    assert manifest_of(tmp_path / "like")["framing"] == "eos-before"
    sizes = manifest_of(tmp_path / "like")["shards"]["num_tokens"]
    assert sizes[:-1] == [700] * (len(sizes) - 1)
    small_build(rows, tmp_path / "own", like="llmc", framing="none", format="native", shard_tokens=700)
    assert manifest_of(tmp_path / "own")["framing"] == "none"
    assert manifest_of(tmp_path / "own")["balance"]["documents"]["cut_in_two"] == 0
    with pytest.raises(InputError, match="like: got 'gpt', expected one of hdf5-shards, llmc"):
        small_build(rows, tmp_path / "out", like="gpt")


# ------------------------------------------------------------------------------------------- splits and bounds


def test_validation_is_chosen_by_text_and_more_inputs_change_nothing(tmp_path: Path) -> None:
    """R098: from 3 and from 5 files, in units of any size, with duplicates in both."""
    (tmp_path / "in").mkdir()
    for number in range(5):
        write_rows(
            tmp_path / "in" / f"{number}.jsonl", [*some_texts(30, 100 * number), "a duplicate", f"only {number}"]
        )
    three = [tmp_path / "in" / f"{i}.jsonl" for i in range(3)]
    small_build(three, tmp_path / "three", val_fraction=0.2)
    small_build(tmp_path / "in", tmp_path / "five", val_fraction=0.2, unit_bytes=5000)
    few = [row for row in documents(tmp_path / "five", "val") if row[2] < 3]
    assert documents(tmp_path / "three", "val") == few
    for out in ("three", "five"):
        train, val = ({tuple(ids) for ids, _, _ in documents(tmp_path / out, split)} for split in ("train", "val"))
        assert not train & val
        assert len(val) >= 10


def test_leading_documents_for_validation(tmp_path: Path, rows: Path) -> None:
    everything = framed(some_texts(30))
    for bound in (1, len(everything[0]), len(everything[0]) + 1, 500):
        out = tmp_path / str(bound)
        small_build(rows, out, val_tokens=bound)
        val = [ids for ids, _, _ in documents(out, "val")]
        assert sum(map(len, val)) >= bound > sum(map(len, val[:-1]))
        assert val + [ids for ids, _, _ in documents(out)] == everything
    with pytest.raises(LimitError, match=r"leave nothing to train on with max_tokens=None, val_tokens=100000"):
        small_build(rows, tmp_path / "out", val_tokens=100_000)


def test_max_tokens_is_the_leading_whole_documents(tmp_path: Path, rows: Path) -> None:
    everything = framed(some_texts(30))
    total = sum(map(len, everything))
    for bound in (len(everything[0]), 700, total - 1, total, total + 1):
        small_build(rows, tmp_path / str(bound), max_tokens=bound)
        kept = [ids for ids, _, _ in documents(tmp_path / str(bound))]
        assert kept == everything[: len(kept)]
        assert sum(map(len, kept)) <= bound
        assert len(kept) == 30 or sum(map(len, everything[: len(kept) + 1])) > bound
    with pytest.raises(LimitError, match="max_tokens=5"):
        small_build(rows, tmp_path / "out", max_tokens=5)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_max_tokens_and_validation_together(tmp_path: Path, rows: Path) -> None:
    small_build(rows, tmp_path / "out", max_tokens=900, val_tokens=300)
    val, train = ([ids for ids, _, _ in documents(tmp_path / "out", split)] for split in ("val", "train"))
    assert val + train == framed(some_texts(30))[: len(val) + len(train)]
    assert sum(map(len, val)) >= 300
    assert sum(map(len, [*val, *train])) <= 900


# ------------------------------------------------------------------------------------------- bad rows


def test_bad_rows_are_counted_listed_and_bounded(tmp_path: Path) -> None:
    """R036: 1,000 rows, 7 malformed in known places."""
    texts = some_texts(1000)
    bad = {
        17: b"{",
        230: b"[1]",
        231: b'{"other": 1}',
        500: b'{"text": 3}',
        640: b'{"text": null}',
        641: b'{"text":"\xff"}',
    }
    bad[999] = b"nothing"
    reasons = ["not-json", "not-an-object", "field-missing", "not-a-string", "null", "invalid-utf8", "not-json"]
    lines = [bad.get(i, json.dumps({"text": text}).encode()) for i, text in enumerate(texts)]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    report = small_build(path, tmp_path / "out")
    assert report.num_documents == 993
    assert report.bad_rows == tmp_path / "out" / "bad_rows.jsonl"
    listed = [json.loads(line) for line in (tmp_path / "out" / "bad_rows.jsonl").read_bytes().splitlines()]
    offsets = [sum(len(line) + 1 for line in lines[:at]) for at in bad]
    assert listed == [
        {"file": "rows.jsonl", "line": at + 1, "offset": offset, "reason": reason}
        for at, offset, reason in zip(bad, offsets, reasons, strict=True)
    ]
    assert report.balance["bad_rows"] == {
        "field-missing": 1,
        "invalid-utf8": 1,
        "not-a-string": 1,
        "not-an-object": 1,
        "not-json": 2,
        "null": 1,
    }
    with pytest.raises(InputError, match=r"rows\.jsonl: byte \d+: got not-json, expected no bad row; mend it"):
        small_build(path, tmp_path / "strict", on_bad="fail")
    assert not (tmp_path / "strict" / "manifest.json").exists()
    # seven are fewer than ten: no ratio is exceeded
    small_build(path, tmp_path / "few", max_bad=0.0)
    path.write_bytes(path.read_bytes() + b"bad\n" * 4)
    with pytest.raises(InputError, match=r"got 11 bad rows of 1004 \(.*6 not-json.*\), expected at most 1\.00%"):
        small_build(path, tmp_path / "many")
    hidden = tmp_path / "many" / ".build" / "bad_rows.jsonl"
    assert len(hidden.read_bytes().splitlines()) == 11
    report = small_build(path, tmp_path / "many", max_bad=0.02)
    assert report.resumed == report.units
    assert len((tmp_path / "many" / "bad_rows.jsonl").read_bytes().splitlines()) == 11


def test_strictness_that_is_asked_for_later_sees_units_that_are_done(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", some_texts(20))
    path.write_bytes(path.read_bytes() + b"bad\n" * 10)
    with pytest.raises(InputError, match="got 10 bad rows of 30"):
        small_build(path, tmp_path / "out")
    with pytest.raises(InputError, match=r"got 10 bad rows of 30 .*, expected none"):
        small_build(path, tmp_path / "out", on_bad="fail")
    for option, value in (("on_bad", "ignore"), ("max_bad", 1.5), ("max_bad", float("nan"))):
        with pytest.raises(InputError, match=f"{option}: got {value!r}, expected"):
            small_build(path, tmp_path / "out", **{option: value})


def test_a_bad_row_beyond_max_tokens_is_none(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", some_texts(200))
    path.write_bytes(path.read_bytes() + b"bad\n")
    for workers in (None, 3):
        out = tmp_path / str(workers)
        report = small_build(path, out, on_bad="fail", max_tokens=2000, workers=workers)
        assert report.balance["bad_rows"] == {}


def test_empty_texts_are_skipped_and_counted(tmp_path: Path) -> None:
    """R019: first, middle and last row of three files; numbers stay consistent."""
    (tmp_path / "in").mkdir()
    for number, texts in enumerate((["", "a", "b"], ["c", "", "d"], ["e", "f", ""])):
        write_rows(tmp_path / "in" / f"{number}.jsonl", texts)
    report = small_build(tmp_path / "in", tmp_path / "out")
    places = [(record, source) for _, record, source in documents(tmp_path / "out")]
    assert places == [(1, 0), (2, 0), (0, 1), (2, 1), (0, 2), (1, 2)]
    assert report.balance["notes"] == {"empty": 3}
    assert report.balance["rows"] == 9
    assert tokenriver.verify(tmp_path / "out", against_inputs=True, inputs_root=tmp_path / "in") == []


def test_nothing_usable_is_an_error_and_no_corpus(tmp_path: Path) -> None:
    """R020: another field, a file of no bytes, an unknown ending, blank rows."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"content": "x", "id": 3}\n' * 30)
    with pytest.raises(InputError) as error:
        small_build(path, tmp_path / "out")
    assert "got 30 rows, none with a document (30 field-missing), expected some; give others" in str(error.value)
    assert "the rows have the fields content, id, not 'text': name one with text_field" in str(error.value)
    assert sorted(corpus_files(tmp_path / "out")) == []
    assert small_build(path, tmp_path / "out", text_field="content").num_documents == 30
    (tmp_path / "empty.jsonl").write_bytes(b"")
    with pytest.raises(InputError, match="got an empty file"):
        small_build(tmp_path / "empty.jsonl", tmp_path / "other")
    shutil.copy(path, tmp_path / "a.dat")
    with pytest.raises(InputError, match="--source jsonl"):
        small_build(tmp_path / "a.dat", tmp_path / "other")
    (tmp_path / "blank.jsonl").write_bytes(b"\n  \n")
    with pytest.raises(InputError, match="got 2 rows, none with a document"):
        small_build(tmp_path / "blank.jsonl", tmp_path / "other")
    assert not (tmp_path / "other" / "manifest.json").exists()


# ------------------------------------------------------------------------------------------- committed corpora


def test_the_same_command_again_says_complete_and_changes_nothing(tmp_path: Path, rows: Path) -> None:
    first = small_build(rows, tmp_path / "out", val_fraction=0.2)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    again = small_build(rows, tmp_path / "out", val_fraction=0.2, workers=2, encoder="reference", max_bad=0.5)
    assert again.complete_before
    assert (again.splits, again.balance) == (first.splits, first.balance)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before


def test_other_builds_into_a_corpus_are_refused(tmp_path: Path, rows: Path) -> None:
    """R047 without append."""
    small_build(rows, tmp_path / "out")
    before = files_of(tmp_path / "out")
    other = write_rows(tmp_path / "other.jsonl", some_texts(100, start=100))
    for inputs, options, says in (
        (other, {}, "from other inputs; choose another folder, or add to it with append"),
        (rows, {"framing": "none"}, "framing: got 'none', expected 'eos-after'"),
        (rows, {"max_tokens": 99}, "holds a corpus built with other options"),
        (rows, {"tokenizer": "gpt2"}, "tokenizer: got another than 'byte'"),
    ):
        with pytest.raises(MismatchError, match=says):
            small_build(inputs, tmp_path / "out", **options)
    assert files_of(tmp_path / "out") == before


def test_appending_leaves_the_old_shards_and_switches_the_manifest(tmp_path: Path) -> None:
    """R047 with append."""
    inputs = [write_rows(tmp_path / f"{i}.jsonl", some_texts(100, start=100 * i)) for i in range(3)]
    options = {"val_fraction": 0.1, "shard_tokens": 3000}
    small_build(inputs[0], tmp_path / "out", **options)
    reader = tokenriver.open_corpus(tmp_path / "out")
    for number in (1, 2):
        old = corpus_files(tmp_path / "out")
        report = small_build(inputs[number], tmp_path / "out", append=True, **options)
        now = corpus_files(tmp_path / "out")
        assert {name: data for name, data in now.items() if name in old and name != "manifest.json"} == {
            name: data for name, data in old.items() if name != "manifest.json"
        }
        assert report.num_documents == 100 * (number + 1)
        assert small_build(
            inputs[number], tmp_path / "out", append=True, val_fraction=0.1, shard_tokens=3000
        ).complete_before
    small_build(inputs, tmp_path / "one", val_fraction=0.1)
    for split in ("train", "val"):
        assert river(tmp_path / "out", split) == river(tmp_path / "one", split)
        assert documents(tmp_path / "out", split) == documents(tmp_path / "one", split)
    assert tokenriver.verify(tmp_path / "out", against_inputs=True, inputs_root=tmp_path) == []
    manifest = manifest_of(tmp_path / "out")
    assert manifest["sources"]["path"] == ["0.jsonl", "1.jsonl", "2.jsonl"]
    assert len(set(manifest["options"]["plans"])) == 3
    assert manifest["balance"]["rows"] == 300
    assert len(set(manifest["shards"]["file"])) == len(manifest["shards"]["file"])
    # a corpus that was open before stays what it was
    assert reader.num_documents == sum(source == 0 for _, _, source in documents(tmp_path / "one"))
    reader.read(0, reader.num_tokens)


def test_appending_is_refused_where_it_cannot_be_meant(tmp_path: Path, rows: Path) -> None:
    more = write_rows(tmp_path / "more.jsonl", some_texts(10, start=100))
    small_build(rows, tmp_path / "out", val_tokens=100, max_tokens=900)
    for options in ({"val_tokens": 5}, {"max_tokens": 5}):
        with pytest.raises(InputError, match="append: got it together with val_tokens or max_tokens"):
            small_build(more, tmp_path / "out", append=True, **options)
    with pytest.raises(MismatchError, match="append: framing: got 'none', expected 'eos-after'"):
        small_build(more, tmp_path / "out", append=True, framing="none")
    with pytest.raises(MismatchError, match="append: tokenizer"):
        small_build(more, tmp_path / "out", append=True, tokenizer="gpt2")
    small_build(more, tmp_path / "out", append=True)
    assert tokenriver.verify(tmp_path / "out") == []
    assert documents(tmp_path / "out")[-10:] == [(ids, n, 1) for n, ids in enumerate(framed(some_texts(10, start=100)))]


def test_appending_to_nothing_is_a_build(tmp_path: Path, rows: Path) -> None:
    small_build(rows, tmp_path / "out", append=True)
    small_build(rows, tmp_path / "one")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "one")


def test_a_damaged_manifest_is_refused_not_replaced(tmp_path: Path, rows: Path) -> None:
    small_build(rows, tmp_path / "out")
    path = tmp_path / "out" / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b"eos-after", b"eos-afteR"))
    before = files_of(tmp_path / "out")
    with pytest.raises(FormatError, match="digest"):
        small_build(rows, tmp_path / "out")
    assert files_of(tmp_path / "out") == before


# ------------------------------------------------------------------------------------------- the user's files


def test_inputs_are_never_touched(tmp_path: Path, rows: Path) -> None:
    """R048: the input folder as output, the output inside of it, a tokenizer that is not there."""
    before = files_of(tmp_path / "in")
    with pytest.raises(InputError, match="lies in the output folder"):
        small_build(tmp_path / "in", tmp_path / "in")
    with pytest.raises(InputError, match="lies in the output folder"):
        small_build(rows, tmp_path / "in")
    missing = tmp_path / "in" / "tokenizer.json"
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        small_build(rows, tmp_path / "out", tokenizer=str(missing))
    assert files_of(tmp_path / "in") == before
    small_build(tmp_path / "in", tmp_path / "in" / "corpus")
    assert {name: data for name, data in files_of(tmp_path / "in").items() if "/" not in name} == before
    assert small_build(tmp_path / "in", tmp_path / "in" / "corpus").complete_before
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(InputError, match="cannot create the folder"):
        small_build(rows, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"workers": 0}, "workers: got 0, expected at least 1"),
        ({"encoder": "quick"}, "encoder: got 'quick', expected fast or reference"),
        ({"format": "parchment"}, "formats: got 'parchment', expected one of"),
        ({"framing": "eot"}, "framing: got 'eot'"),
        ({"framing": "bos-eos"}, "has one id, 256, for both"),
        ({"source": "csv"}, "sources: got 'csv', expected one of"),
        ({"unit_bytes": 1}, "unit_bytes: got 1, expected at least 1024"),
        ({"name": "../up"}, "name: got '../up'"),
    ],
)
def test_refusals_come_before_anything_is_written(
    tmp_path: Path, rows: Path, options: dict[str, object], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        small_build(rows, tmp_path / "out", **options)
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert corpus_files(tmp_path / "out") == {}


def test_progress_counts_stored_bytes_and_ends_at_all_of_them(tmp_path: Path, rows: Path) -> None:
    seen: list[tuple[int, int]] = []
    small_build(rows, tmp_path / "out", progress=lambda done, total: seen.append((done, total)))
    assert {total for _, total in seen} == {rows.stat().st_size}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert all(0 <= done <= total for done, total in seen)


def test_the_gate_stops_a_build_at_the_first_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fast encoder that is wrong about this build's own text alone."""
    encode = _fast.FastEncoder.encode_framed

    def wrong(self: _fast.FastEncoder, texts: list[bytes], before: int | None, after: int | None) -> tuple[Ids, Int64]:
        ids, lengths = encode(self, texts, before, after)
        return np.where(ids == 450, 262, ids) if any(b"abc de" in text for text in texts) else ids, lengths

    rows = write_rows(tmp_path / "rows.jsonl", some_texts(400))
    assert 450 in tokenriver.load_tokenizer("gpt2").encode("one abc de").tolist()
    monkeypatch.setattr(_fast.FastEncoder, "encode_framed", wrong)
    with pytest.raises(MismatchError, match="abc"):
        small_build(rows, tmp_path / "out", tokenizer="gpt2", unit_bytes=1 << 20)
    assert not (tmp_path / "out" / "manifest.json").exists()
    small_build(rows, tmp_path / "unchecked", tokenizer="gpt2", unit_bytes=1 << 20, encoder_check=False)
