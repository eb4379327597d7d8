"""Records to a corpus with loss masks: every row has one fate, what is trained is the answer, nothing depends on how
the work was cut."""

import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenriver as tr
from chat_cases import toy_tokenizer
from small_builds import files_of
from tokenriver import conversing, records
from tokenriver.against import record_texts
from tokenriver.errors import InputError, LimitError, MismatchError
from tokenriver.types import IGNORE

HEADERS = len("<|user|>\n") + len("<|assistant|>\n")


def write(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")
    return path


def pair(prompt: str, completion: str) -> dict[str, str]:
    return {"prompt": prompt, "completion": completion}


def make(path: Path, out: Path, **options: object) -> tr.Corpus:
    given: dict[str, Any] = {"tokenizer": "byte", **options}
    tr.sft(path, out, **given)
    return tr.open_corpus(out)


def trained(corpus: tr.Corpus) -> list[str]:
    """What is trained of each document."""
    assert corpus.loss_mask is not None
    bits = corpus.loss_mask.at(np.arange(corpus.num_tokens))
    out = []
    for document in range(corpus.num_documents or 0):
        start, stop = corpus.doc_bounds(document)
        out.append("".join("|" if i == 256 else chr(i) for i in corpus.read(start, stop)[bits[start:stop]].tolist()))
    return out


def test_every_row_has_one_fate(tmp_path: Path, quick_disk: None) -> None:
    talk = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]
    rows: list[object] = [
        {"messages": talk},
        "",
        "{",
        {"messages": [*talk, {"role": "judge", "content": "?"}]},
        {"messages": talk[:1]},
        {"messages": []},
        {"messages": [talk[0], {"role": "assistant", "content": "x" * 90}]},
        {"messages": [talk[0], {"role": "assistant", "content": "A", "reasoning_content": "R"}]},
        {"messages": [talk[0], {**talk[1], "weight": 0}]},
        {"messages": [talk[0], {**talk[1], "train": True}]},
    ]
    report = tr.sft(write(tmp_path / "a.jsonl", rows), tmp_path / "c", tokenizer="byte", max_length=80)
    assert report.balance["rows"] == 10
    assert report.balance["bad_rows"] == {
        "empty-conversation": 1,
        "not-json": 1,
        "nothing-to-train": 2,
        "template": 1,
        "unknown-role": 1,
    }
    assert report.balance["documents"] == {"dropped": {"too-long": 1}, "kept": {"train": 2}}
    assert report.balance["notes"] == {"blank": 1}
    assert report.bad_rows is not None
    listed = [json.loads(line) for line in report.bad_rows.read_text().splitlines()]
    assert [(row["line"], row["reason"]) for row in listed] == [
        (3, "not-json"),
        (4, "unknown-role"),
        (5, "nothing-to-train"),
        (6, "empty-conversation"),
        (8, "template"),
        (9, "nothing-to-train"),
    ]
    text = (tmp_path / "a.jsonl").read_bytes()
    assert [text[row["offset"] :].startswith((b"{", b'{"')) for row in listed] == [True] * 6
    corpus = tr.open_corpus(tmp_path / "c")
    assert trained(corpus) == ["A|", "A|"]
    assert [corpus.source(at) for at in range(2)] == [("a.jsonl", 0), ("a.jsonl", 9)]
    assert tr.verify(tmp_path / "c") == []
    assert report.splits["train"]["trained"] == 4


def test_long_examples(tmp_path: Path, quick_disk: None) -> None:
    path = write(tmp_path / "a.jsonl", [pair("Q", "A"), pair("Q", "long answer"), pair("long question", "A")])
    most = HEADERS + len("Q|A|") + 2
    dropped = tr.sft(path, tmp_path / "a", tokenizer="byte", max_length=most)
    assert dropped.balance["documents"] == {"dropped": {"too-long": 2}, "kept": {"train": 1}}
    cut = make(path, tmp_path / "b", max_length=most, overflow="truncate")
    assert trained(cut) == ["A|", "long"]
    assert cut.manifest is not None
    assert cut.manifest.balance["documents"]["dropped"] == {"answer-cut-away": 1}
    assert cut.manifest.balance["notes"] == {"truncated": 1}
    assert dropped.lengths["1"] == most - 2


@settings(max_examples=10, deadline=None)
@given(
    rows=st.lists(st.tuples(st.text(max_size=8), st.text(max_size=12)), min_size=1, max_size=12),
    lines=st.integers(1, 5),
    val=st.sampled_from([0.0, 0.4]),
)
def test_the_work_can_be_cut_anywhere(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], lines: int, val: float
) -> None:
    folder = tmp_path_factory.mktemp("sft")
    path = write(folder / "a.jsonl", [pair(*row) for row in rows])
    options: dict[str, Any] = {"tokenizer": "byte", "val_fraction": val, "max_length": HEADERS + 22}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tokenriver.files.system.fsync", lambda fd: None)
        try:
            report = tr.sft(path, folder / "whole", **options)
        except InputError:
            return
        patch.setattr(records, "LINES", lines)
        patch.setattr(conversing, "TOGETHER", 1)
        tr.sft(path, folder / "cut", **options)
    assert files_of(folder / "whole") == files_of(folder / "cut")
    found = sorted(t for split in report.splits for t in trained(tr.open_corpus(folder / "whole", split=split)))
    naive = [c for p, c in rows if len(p.encode()) + len(c.encode()) + 2 <= 22]
    assert found == sorted("".join(map(chr, c.encode())) + "|" for c in naive)


def test_equal_conversations_stay_on_one_side(tmp_path: Path, quick_disk: None) -> None:
    rows = [pair(f"Q{i % 40}", "A") for i in range(120)]
    tr.sft(write(tmp_path / "a.jsonl", rows), tmp_path / "c", tokenizer="byte", val_fraction=0.3)
    texts = {
        split: {bytes(i for i in ids if i < 256) for ids in map(corpus.document, range(corpus.num_documents or 0))}
        for split in ("train", "val")
        for corpus in [tr.open_corpus(tmp_path / "c", split=split)]
    }
    assert not texts["train"] & texts["val"]
    assert len(texts["train"] | texts["val"]) == 40
    assert 4 <= len(texts["val"]) <= 20


def test_rows_of_whole_examples(tmp_path: Path, quick_disk: None) -> None:
    rows = [pair("q" * (i % 7), "a" * (i * 5 % 11)) for i in range(60)]
    corpus = make(write(tmp_path / "a.jsonl", rows), tmp_path / "c")
    loader = tr.Loader(corpus, seq_len=128, global_batch=3, packing="best_fit", overflow="drop", prefetch=0)
    served = "".join(chr(i) for batch in loader for i in batch.targets[batch.targets != IGNORE].tolist() if i < 256)
    assert served == "a" * sum(i * 5 % 11 for i in range(60))
    report = tr.sft(tmp_path / "a.jsonl", tmp_path / "c", tokenizer="byte", seq_len=128)
    assert report.complete_before
    assert report.padding == pytest.approx(1 - loader.balance["served"] / (128 * loader.num_rows), abs=0.03)


def test_several_inputs_and_options_that_differ(tmp_path: Path, quick_disk: None) -> None:
    one = write(tmp_path / "a.jsonl", [{"instruction": "Q", "output": "A"}])
    (tmp_path / "b.json").write_text(json.dumps([{"question": "Q", "answer": "B #### 2"}]))
    tr.sft([one, tmp_path / "b.json"], tmp_path / "c", tokenizer="byte")
    corpus = tr.open_corpus(tmp_path / "c")
    assert trained(corpus) == ["A|", "<think>B</think><answer>2</answer>|"]
    assert corpus.source(1) == ("b.json", 0)
    assert corpus.manifest is not None
    assert record_texts(corpus.manifest, [("b.json", 0)], tmp_path) == {
        ("b.json", 0): b'{"question":"Q","answer":"B #### 2"}'
    }
    with pytest.raises(MismatchError, match="holds another corpus"):
        tr.sft(one, tmp_path / "c", tokenizer="byte")
    last = make(
        write(
            tmp_path / "d.jsonl",
            [{"messages": [{"role": r, "content": r[0]} for r in ("user", "assistant", "user", "assistant")]}],
        ),
        tmp_path / "d",
        train="last",
    )
    assert trained(last) == ["a|"]


def test_options_of_a_template_are_on_record(tmp_path: Path, quick_disk: None) -> None:
    template = tmp_path / "t.jinja"
    template.write_text(
        "{{ today }}{% for m in messages %}{{ m.role + ':' + m.content + '<|endoftext|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
    )
    source = write(tmp_path / "a.jsonl", [pair("Q", "A")])
    asked: dict[str, Any] = {"tokenizer": toy_tokenizer(), "template": str(template)}
    tr.sft(source, tmp_path / "c", **asked, template_options={"today": "1 May "})
    corpus = tr.open_corpus(tmp_path / "c", tokenizer=toy_tokenizer())
    assert corpus.decode(corpus.document(0)) == "1 May user:Q<|endoftext|>assistant:A<|endoftext|>"
    assert corpus.manifest is not None
    assert corpus.manifest.options["template_options"] == {"today": "1 May "}
    assert tr.sft(source, tmp_path / "c", **asked, template_options={"today": "1 May "}).complete_before
    for other in ({"today": "2 May "}, None):
        with pytest.raises(MismatchError, match="holds another corpus"):
            tr.sft(source, tmp_path / "c", **asked, template_options=other)
    for options in ({"Today": 1}, {"today": float("nan")}):
        with pytest.raises(InputError, match=r"expected one of today; leave it out|expected values of JSON"):
            tr.sft(source, tmp_path / "e", **asked, template_options=options)


def test_the_manifest_has_the_digests_of_the_stored_inputs(tmp_path: Path, quick_disk: None) -> None:
    data = write(tmp_path / "a.jsonl", [pair("Q", "A")] * 9).read_bytes()
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(data[:50]) + gzip.compress(data[50:]) + bytes(9))
    (tmp_path / "c.jsonl.zst").write_bytes(zstandard.compress(data) + zstandard.compress(b""))
    (tmp_path / "d.json").write_text(json.dumps([pair("Q", "A")]))
    pq.write_table(pa.Table.from_pylist([pair("Q", "A")]), tmp_path / "e.parquet")
    paths = sorted(path for path in tmp_path.iterdir())
    tr.sft(paths, tmp_path / "c", tokenizer="byte")
    manifest = tr.open_corpus(tmp_path / "c").manifest
    assert manifest is not None
    assert [source.records for source in manifest.sources] == [9, 9, 9, 1, 1]
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    assert [source.sha256 for source in manifest.sources] == digests


def test_records_in_parquet(tmp_path: Path, quick_disk: None) -> None:
    talk = [{"role": "user", "content": "Q", "name": None}, {"role": "assistant", "content": "A", "name": None}]
    named = [{**talk[0], "name": "Eve"}, talk[1]]
    pq.write_table(pa.Table.from_pylist([{"messages": talk}, {"messages": named}]), tmp_path / "a.parquet")
    corpus = make(tmp_path / "a.parquet", tmp_path / "c")
    assert trained(corpus) == ["A|", "A|"]
    assert corpus.manifest is not None
    assert corpus.manifest.balance["notes"] == {"field-not-rendered": 1}
    with pytest.raises(InputError, match="got a corpus of examples, expected one of texts"):
        tr.verify(tmp_path / "c", against_inputs=True, tokenizer="byte")


def test_what_is_refused(tmp_path: Path, quick_disk: None) -> None:
    good = write(tmp_path / "a.jsonl", [pair("Q", "A")])
    for options, says in (
        ({"overflow": "split"}, "overflow: got 'split', expected one of drop, truncate"),
        ({"workers": -1}, "workers: got -1, expected 0 or more"),
        ({"max_length": 1}, "max_length: got 1, expected at least 2"),
        ({"like": "x"}, "like: got 'x', expected 'sft-hdf5' or none"),
        ({"val_fraction": 1.0}, "val_fraction: got 1.0"),
        ({"shape": "x"}, "shape: got 'x', expected one of auto"),
        ({"template": "x"}, "templates: got 'x'"),
        ({"on_bad": "x"}, "on_bad: got 'x'"),
    ):
        with pytest.raises(InputError, match=says):
            make(good, tmp_path / "c", **options)
    bad = write(tmp_path / "b.jsonl", [pair("Q", "A"), "{", *[{"prompt": "Q"}] * 10])
    with pytest.raises(InputError, match=r"line 2: got not-json, expected no bad row"):
        make(bad, tmp_path / "c", on_bad="fail")
    with pytest.raises(InputError, match=r"got 11 bad rows of 12 \(10 field-missing, 1 not-json\), expected at most"):
        make(bad, tmp_path / "c")
    assert len((tmp_path / "c" / ".build" / "bad_rows.jsonl").read_text().splitlines()) == 11
    assert trained(make(bad, tmp_path / "c", max_bad=1.0)) == ["A|"]
    with pytest.raises(InputError, match=r"got 1 rows, none with an example \(1 too-long\)"):
        make(good, tmp_path / "d", max_length=5)
    with pytest.raises(LimitError, match=r"sft_dev_packed\.h5: got 27 ids in 1 examples, expected at least 64"):
        tr.sft(good, tmp_path / "e", tokenizer="byte", like="sft-hdf5", seq_len=64)


def test_packed_rows_are_the_examples_end_to_end(tmp_path: Path, quick_disk: None) -> None:
    path = write(tmp_path / "a.jsonl", [pair(f"Q{i}", "A" * i) for i in range(20)])
    report = tr.sft(path, tmp_path / "h", tokenizer="byte", like="sft-hdf5", seq_len=40, val_fraction=0.2)
    corpus = make(path, tmp_path / "n", max_length=40)
    order = list(range(corpus.num_documents or 0))
    np.random.default_rng(42).shuffle(order)
    whole = np.concatenate([corpus.document(at) for at in order[len(order) // 5 :]])
    packed = tr.open_corpus(tmp_path / "h" / "sft_packed.h5")
    assert packed.read(0, packed.num_tokens).tolist() == whole[: len(whole) // 40 * 40].tolist()
    assert report.splits["train"]["dropped_ids"] == len(whole) % 40
    assert not (tmp_path / "h" / ".build").exists()
