"""Comparisons become pairs, in lines or in a corpus of two rows each, or are counted with file and line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tokenriver as tr
from chat_cases import toy_tokenizer
from small_builds import files_of
from tokenriver.errors import InputError, MismatchError
from tokenriver.hashing import held_out

ASKED = "\n\nHuman: q\n\nAssistant:"
RECORDS: list[Any] = [
    {"chosen": ASKED + " a", "rejected": ASKED + " b", "score": 1},
    {"prompt": "p ", "chosen": "46", "rejected": "$46"},
    {"chosen": ASKED + " a", "rejected": ASKED + " a"},
    {"chosen": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "a"}], "rejected": 3},
    {"chosen": ASKED + " c", "rejected": ASKED + " d"},
    {"prompt": [{"role": "robot", "content": "p"}], "chosen": "e", "rejected": "f"},
    {"prompt": "<|endoftext|>", "chosen": "a<|endoftext|>", "rejected": "b"},
]


def write(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_lines(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", RECORDS), tmp_path / "out.jsonl"
    report = tr.preference(source, out, max_per_dataset=2)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert rows == [
        {"prompt": "Human: q", "chosen": "a", "rejected": "b"},
        {"prompt": "p ", "chosen": "46", "rejected": "$46"},
        {"prompt": "Human: q", "chosen": "c", "rejected": "d"},
        {"prompt": [{"role": "robot", "content": "p"}], "chosen": "e", "rejected": "f"},
    ]
    assert (report.rows, report.kept, report.unused_fields) == (7, 4, {"score": 1})
    assert report.dropped == {"beyond-max-rows": 1, "identical-answers": 1}
    assert report.bad == {"not-a-string": 1}
    assert report.facts == {"datasets": {"hh": 2, "strings": 2}}
    listed = [json.loads(line) for line in (tmp_path / "out.dropped.jsonl").read_text().splitlines()]
    assert [(row["line"], row["reason"]) for row in listed] == [(3, "identical-answers"), (4, "not-a-string")]
    again = tr.preference(out, tmp_path / "again.jsonl")
    assert (again.sha256, again.kept) == (report.sha256, 4)
    tr.preference(out, tmp_path / "mixed.jsonl", shuffle=1)
    assert sorted((tmp_path / "mixed.jsonl").read_text()) == sorted(out.read_text())


def test_a_corpus(tmp_path: Path, quick_disk: None) -> None:
    source = write(tmp_path / "in.jsonl", RECORDS)
    report = tr.preference(source, tmp_path / "c", tokenizer="byte")
    assert tr.verify(tmp_path / "c") == []
    assert report.bad == {"not-a-string": 1, "not-renderable": 1}
    assert report.dropped == {"identical-answers": 1}
    assert (report.rows, report.kept) == (7, 4)
    listed = [json.loads(line) for line in (tmp_path / "c" / "bad_rows.jsonl").read_text().splitlines()]
    assert [(row["line"], row["reason"]) for row in listed] == [(4, "not-a-string"), (6, "not-renderable")]
    corpus = tr.open_corpus(tmp_path / "c")
    assert corpus.num_documents == 8
    assert corpus.manifest is not None
    assert corpus.manifest.options["rows_per_sample"] == 2
    assert [corpus.source(i) for i in range(8)] == [("in.jsonl", row) for row in (0, 0, 1, 1, 4, 4, 6, 6)]
    assert corpus.decode(corpus.document(2)) == "<|user|>\np <|endoftext|><|assistant|>\n46<|endoftext|>"
    assert corpus.loss_mask is not None
    trained = corpus.loss_mask.at(np.arange(corpus.num_tokens))
    assert int(trained.sum()) == report.facts["trained"]
    assert corpus.decode(corpus.read(0, corpus.num_tokens)[trained]).split("<|endoftext|>")[:4] == [
        "a",
        "b",
        "46",
        "$46",
    ]
    # text that spells a token is text: each row has its two ends alone
    assert [corpus.document(i).tolist().count(256) for i in range(8)] == [2] * 8
    before = files_of(tmp_path / "c")
    assert tr.preference(source, tmp_path / "c", tokenizer="byte") == report
    assert files_of(tmp_path / "c") == before
    write(source, RECORDS[:3])
    with pytest.raises(MismatchError, match="holds another corpus"):
        tr.preference(source, tmp_path / "c", tokenizer="byte")


def test_a_corpus_of_pairs_is_refused_where_they_would_be_mixed_up(tmp_path: Path, quick_disk: None) -> None:
    tr.preference(write(tmp_path / "in.jsonl", RECORDS), tmp_path / "c", tokenizer="byte")
    corpus = tr.open_corpus(tmp_path / "c")
    for either in (corpus, tr.Mixture({"a": (corpus, 1.0)})):
        with pytest.raises(InputError, match=r"kind 'preference', 2 documents a sample .* read it with PairLoader"):
            tr.Loader(either, seq_len=4, global_batch=1, packing="document")
    with pytest.raises(InputError, match="got samples of 2 documents, expected single ones"):
        tr.convert(tmp_path / "c", tmp_path / "d", format="native")


def test_what_makes_no_sense_is_refused(tmp_path: Path, quick_disk: None) -> None:
    source = write(tmp_path / "in.jsonl", RECORDS)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"dataset": "x"}, "dataset: got 'x', expected one of hh, ultrafeedback, both, auto"),
        ({"like": "llmc"}, "like: got 'llmc', expected pile-hdf5"),
        ({"max_per_dataset": 0}, "max_per_dataset: got 0"),
        ({"on_bad": "fail"}, r"in\.jsonl: line 4: got not-a-string, expected no bad row"),
        ({"dataset": "ultrafeedback"}, r"none with an example \(1 not-a-string, 6 other-dataset\), expected some"),
        ({"max_bad": -1}, "max_bad: got -1"),
    ]
    for number, (options, named) in enumerate(refused):
        for out in (f"out{number}.jsonl", f"corpus{number}"):
            with pytest.raises(InputError, match=named):
                tr.preference(source, tmp_path / out, **options)
            assert not (tmp_path / out / "manifest.json").exists()
    with pytest.raises(InputError, match="shuffle: got it with a corpus"):
        tr.preference(source, tmp_path / "corpus2", shuffle=0)
    with pytest.raises(InputError, match="template_options: got some with lines"):
        tr.preference(source, tmp_path / "out.jsonl", template_options={"a": 1})
    with pytest.raises(InputError, match="template plain: got template options"):
        tr.preference(source, tmp_path / "corpus2", template_options={"a": 1})
    # a run that failed stands in nobody's way
    assert tr.preference(source, tmp_path / "corpus4", turns=True).kept == 4
    with pytest.raises(InputError, match=r"out: got a name in \.gz, expected one in \.jsonl"):
        tr.preference(source, tmp_path / "out.jsonl.gz")
    with pytest.raises(InputError, match="is one of the inputs"):
        tr.preference(source, source)
    (tmp_path / "x.txt").write_text("text")
    with pytest.raises(InputError, match="expected records"):
        tr.preference(tmp_path / "x.txt", tmp_path / "y.jsonl")


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(0, 99)), min_size=1, max_size=30), st.data())
def test_a_prompt_is_on_one_side_with_all_of_its_pairs(
    tmp_path_factory: pytest.TempPathFactory, quick_disk: None, rows: list[tuple[int, bool, int]], data: st.DataObject
) -> None:
    """In lines and in the corpus alike, by the prompt alone, counted, and each side in the order of the rows."""
    folder, fraction = tmp_path_factory.mktemp("split"), data.draw(st.sampled_from((0.1, 0.4, 0.8)))
    records = []
    for number, as_messages, answer in rows:
        prompt: Any = f"p{number}"
        prompt = [{"role": "user", "content": prompt}] if as_messages else prompt
        records.append({"prompt": prompt, "chosen": f"a{answer}", "rejected": f"b{answer}"})
    held = [held_out([json.dumps([("user", f"p{number}")]).encode()], fraction)[0] for number, _, _ in rows]
    source, out = write(folder / "in.jsonl", records), folder / "out.jsonl"
    if all(held):
        for place in (out, folder / "c"):
            with pytest.raises(InputError, match=f"val_fraction: got one that leaves none of {len(rows)} examples"):
                tr.preference(source, place, val_fraction=fraction, tokenizer="byte")
        assert sorted(path.name for path in folder.iterdir() if path.is_file()) == ["in.jsonl"]
        return
    counts = {"train": held.count(False), "val": held.count(True)}
    report = tr.preference(source, out, val_fraction=fraction)
    assert (report.kept, report.facts["splits"]) == (len(rows), counts)
    for side, path in ((False, out), (True, folder / "out.val.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert lines == [record for record, apart in zip(records, held, strict=True) if apart == side]
    mixed = tr.preference(source, folder / "mixed.jsonl", val_fraction=fraction, shuffle=3)
    assert (folder / "mixed.val.jsonl").read_bytes() == (folder / "out.val.jsonl").read_bytes()
    assert mixed.facts["val_sha256"] == report.facts["val_sha256"]
    assert tr.preference(source, folder / "c", val_fraction=fraction, tokenizer="byte").facts["splits"] == counts
    for split in ("train", "val"):
        places = [n for n, apart in enumerate(held) if apart == (split == "val")]
        if places:
            corpus = tr.open_corpus(folder / "c", split=split)
            loader = tr.PairLoader(corpus, max_length=99, global_batch=1, order="sequential")
            assert loader.num_pairs == len(places)
            assert [corpus.source(2 * place)[1] for place in range(len(places))] == places


def test_what_was_held_out_stays_held_out_with_more_rows_and_another_order(tmp_path: Path, quick_disk: None) -> None:
    records = [{"prompt": f"p{n}", "chosen": "a", "rejected": "b"} for n in range(60)]
    sides = []
    for some in (records, records[:30], records[::-1]):
        tr.preference(write(tmp_path / "in.jsonl", some), tmp_path / "out.jsonl", val_fraction=0.3)
        found = [json.loads(line)["prompt"] for line in (tmp_path / "out.val.jsonl").read_text().splitlines()]
        sides.append(set(found) & {record["prompt"] for record in records[:30]})
    assert sides[0] == sides[1] == sides[2]
    assert 0 < len(sides[0]) < 30
    source = write(tmp_path / "out.val.jsonl", records)
    with pytest.raises(InputError, match="is one of the inputs"):
        tr.preference(source, tmp_path / "out.jsonl", val_fraction=0.3)
    for share in (1.0, -0.1):
        with pytest.raises(InputError, match=f"val_fraction: got {share}, expected at least 0 and below 1"):
            tr.preference(source, tmp_path / "x.jsonl", val_fraction=share)


def test_a_template_of_a_file_is_on_record_without_its_folder(tmp_path: Path, quick_disk: None) -> None:
    source = write(tmp_path / "in.jsonl", [{"prompt": "p", "chosen": "a", "rejected": "b"}])
    templates = [tmp_path / name / "t.jinja" for name in ("x", "y")]
    for template in templates:
        template.parent.mkdir()
        template.write_text(
            "{% for m in messages %}{{ m.role + mark + m.content + '<|endoftext|>' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ 'assistant' + mark }}{% endif %}"
        )
    asked: dict[str, Any] = {"tokenizer": toy_tokenizer(), "template_options": {"mark": ": "}}
    for template in templates:  # the second finds the corpus of the first
        tr.preference(source, tmp_path / "c", template=str(template), **asked)
    corpus = tr.open_corpus(tmp_path / "c", tokenizer=toy_tokenizer())
    assert corpus.decode(corpus.document(1)) == "user: p<|endoftext|>assistant: b<|endoftext|>"
    assert corpus.manifest is not None
    options = corpus.manifest.options
    assert (options["template"], options["template_options"]) == ("t.jinja", {"mark": ": "})


def test_held_out_pairs_of_an_earlier_run_are_no_part_of_one_that_holds_none_out(
    tmp_path: Path, quick_disk: None
) -> None:
    records = [{"prompt": f"p{n}", "chosen": "a", "rejected": "b"} for n in range(20)]
    source, out, other = write(tmp_path / "in.jsonl", records), tmp_path / "out.jsonl", tmp_path / "out.val.jsonl"
    for _ in range(2):  # one run replaces what the other has written
        tr.preference(source, out, val_fraction=0.5)
    before = out.read_bytes(), other.read_bytes()
    with pytest.raises(InputError, match=r"out\.val\.jsonl: got a file of held-out pairs .* give val_fraction"):
        tr.preference(source, out)
    assert (out.read_bytes(), other.read_bytes()) == before
    other.unlink()
    assert tr.preference(source, out).kept == 20
    assert not other.exists()


TEXT = st.text(st.sampled_from("ab \n\u00e9<|>\U0001f9ff"), min_size=1, max_size=8).filter(str.strip)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TEXT, TEXT, TEXT).filter(lambda p: p[1].strip() != p[2].strip()), min_size=1, max_size=4))
@pytest.mark.parametrize("template", ["plain", "chatml"])
def test_both_rows_have_the_prompt_and_their_own_answer(
    template: str, tmp_path_factory: pytest.TempPathFactory, quick_disk: None, pairs: list[tuple[str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("pairs")
    rows = [{"prompt": p, "chosen": a, "rejected": b} for p, a, b in pairs]
    tokenizer = toy_tokenizer()
    tr.preference(write(folder / "in.jsonl", rows), folder / "c", template=template, tokenizer=tokenizer)
    corpus = tr.open_corpus(folder / "c")
    assert corpus.loss_mask is not None
    for number, (_, *answers) in enumerate(pairs):
        prompts = []
        for side, answer in enumerate(answers):
            start, stop = corpus.doc_bounds(2 * number + side)
            ids, mask = corpus.read(start, stop), corpus.loss_mask.at(np.arange(start, stop))
            first = int(mask.argmax())
            prompts.append(ids[:first].tolist())
            assert tokenizer.decode_bytes(ids[mask][:-1]) == answer.encode()
        assert prompts[0] == prompts[1]
