"""Builds without duplicates: the first in input order stays, wherever its likes lie."""

from pathlib import Path

import pytest

import tokenriver
from small_builds import documents, files_of, framed, manifest_of, small_build, some_texts, write_rows
from tokenriver.errors import FormatError, InputError, MismatchError

pytestmark = pytest.mark.usefixtures("quick_disk")


def test_the_first_in_input_order_stays(tmp_path: Path) -> None:
    one = write_rows(tmp_path / "a.jsonl", ["x", "y", "x", "é"])
    two = write_rows(tmp_path / "b.jsonl", ["y", "e\u0301", "z", "é", "z ", ""])
    report = small_build([one, two], tmp_path / "c", filter="exact_dedup")
    kept = [("x", 0, 0), ("y", 1, 0), ("é", 3, 0), ("e\u0301", 1, 1), ("z", 2, 1), ("z ", 4, 1)]
    wanted = [(framed([text])[0], record, source) for text, record, source in kept]
    assert documents(tmp_path / "c") == wanted
    assert report.balance["documents"]["filtered"] == {"duplicate": 3}
    assert report.balance["ids"]["filtered"] == {"duplicate": 2 + 2 + 3}
    assert report.balance["rows"] == 10
    assert report.num_documents == 6
    assert manifest_of(tmp_path / "c")["options"]["filters"] == [{"name": "exact-dedup", "parameters": {}}]


def test_what_another_filter_drops_is_nobodys_first(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", ["a", "a", "long enough", "long enough"])
    report = small_build(path, tmp_path / "c", filter=["exact-dedup", "length:min_chars=2"])
    assert report.balance["documents"]["filtered"] == {"duplicate": 1, "min_chars": 2}


def test_units_of_duplicates_alone(tmp_path: Path) -> None:
    texts = some_texts(40)
    once = write_rows(tmp_path / "once.jsonl", texts)
    thrice = write_rows(tmp_path / "thrice.jsonl", [*texts, *texts, *texts])
    small_build(once, tmp_path / "one", shard_tokens=900)
    report = small_build(thrice, tmp_path / "c", filter="exact-dedup", shard_tokens=900, val_fraction=0.0)
    first, second = (files_of(tmp_path / name) for name in ("one", "c"))
    assert second.keys() - first.keys() == {"tokens_000000.digests"}
    assert {name for name in first if first[name] != second[name]} == {"manifest.json"}
    assert report.balance["documents"]["filtered"]["duplicate"] == 80


@pytest.mark.parametrize("format", ["nanogpt", "megatron"])
def test_other_formats(tmp_path: Path, format: str) -> None:
    texts = some_texts(30)
    path = write_rows(tmp_path / "a.jsonl", [*texts[:20], *texts])
    small_build(path, tmp_path / "c", filter="exact-dedup", val_fraction=0.3, format=format)
    held = [*documents_of(tmp_path / "c", "train"), *documents_of(tmp_path / "c", "val")]
    assert sorted(held) == sorted(framed(texts))


def documents_of(out: Path, split: str) -> list[list[int]]:
    corpus = tokenriver.open_corpus(out, split=split)
    return [[int(i) for i in corpus.document(number)] for number in range(corpus.num_documents or 0)]


def test_max_tokens_counts_what_stays_and_stops_in_time(tmp_path: Path) -> None:
    texts = some_texts(60)
    path = write_rows(tmp_path / "a.jsonl", [*texts[:30], *texts[:30], *texts, *some_texts(400, start=100)])
    everything = small_build(path, tmp_path / "all", filter="exact-dedup")
    wanted = framed(texts[:50])
    bound = sum(map(len, wanted))
    report = small_build(path, tmp_path / "c", filter="exact-dedup", max_tokens=bound)
    assert [ids for ids, _, _ in documents(tmp_path / "c")] == wanted
    assert report.balance["documents"]["filtered"]["duplicate"] == 60
    assert report.balance["unread_inputs"]
    assert report.units < everything.units / 2


def test_an_append_repeats_nothing_of_the_corpus(tmp_path: Path) -> None:
    options = {"filter": ["exact-dedup", "length:min_chars=1"], "val_fraction": 0.3}
    texts = some_texts(40)
    one = write_rows(tmp_path / "a.jsonl", [*texts[:12], *texts[:4]])
    two = write_rows(tmp_path / "b.jsonl", [*texts[8:25], *texts[20:]])
    small_build(one, tmp_path / "c", **options)
    old = files_of(tmp_path / "c")
    for number, path in enumerate((two, write_rows(tmp_path / "z.jsonl", [*texts, *some_texts(9, start=70)]))):
        report = small_build(path, tmp_path / "c", append=True, **options)
        assert report.balance["documents"]["filtered"]["duplicate"] == (4 + 4 + 5, 13 + 40)[number]
        assert small_build(path, tmp_path / "c", append=True, **options).complete_before
    now = files_of(tmp_path / "c")
    assert all(now[name] == data for name, data in old.items() if name != "manifest.json")
    held = [*documents_of(tmp_path / "c", "train"), *documents_of(tmp_path / "c", "val")]
    assert sorted(held) == sorted(framed([*texts, *some_texts(9, start=70)]))
    sizes = [len(now[f"tokens_{number:06d}.digests"]) // 16 for number in range(3)]
    assert sizes == [12, 28, 9]
    assert tokenriver.verify(tmp_path / "c") == []


def test_texts_beyond_max_tokens_may_still_come(tmp_path: Path) -> None:
    texts = some_texts(20)
    bound = sum(map(len, framed(texts[:7])))
    small_build(write_rows(tmp_path / "a.jsonl", texts), tmp_path / "c", filter="exact-dedup", max_tokens=bound)
    small_build(write_rows(tmp_path / "b.jsonl", texts), tmp_path / "c", filter="exact-dedup", append=True)
    assert documents_of(tmp_path / "c", "train") == framed(texts)


def test_an_append_that_cannot_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_rows(tmp_path / "a.jsonl", ["a", "b"])
    more = write_rows(tmp_path / "b.jsonl", ["a", "c"])
    small_build(path, tmp_path / "c", filter="exact-dedup")
    digests = tmp_path / "c" / "tokens_000000.digests"
    digests.write_bytes(bytes(32))
    with pytest.raises(FormatError, match="got another file than the manifest names; restore it"):
        small_build(more, tmp_path / "c", filter="exact-dedup", append=True)
    found = tokenriver.verify(tmp_path / "c")
    assert [Path(one.path).name for one in found] == [digests.name]
    monkeypatch.setattr("tokenriver.commit.textdigests.SUFFIX", ".none")
    with pytest.raises(InputError, match="got a corpus without the digests of its texts"):
        small_build(more, tmp_path / "c", filter="exact-dedup", append=True)
    stray = tmp_path / "d" / "tokens_000000.digests"
    stray.parent.mkdir()
    stray.write_bytes(b"")
    monkeypatch.undo()
    with pytest.raises(InputError, match="belongs to no corpus"):
        small_build(more, tmp_path / "d", filter="exact-dedup")


def test_a_part_that_was_damaged_meanwhile(tmp_path: Path) -> None:
    """Its ids are copied, so they are compared first; the next run does its unit again."""
    texts = some_texts(30)
    path = write_rows(tmp_path / "a.jsonl", [*texts, *texts])
    options = {"filter": "exact-dedup", "val_fraction": 0.2}
    small_build(path, tmp_path / "good", **options)
    seen: list[int] = []

    def damage(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == 4:
            part = sorted((tmp_path / "c" / ".build").glob("*.part"))[2]
            part.write_bytes(b"\xff" + part.read_bytes()[1:])

    with pytest.raises(MismatchError, match="run the same command again"):
        small_build(path, tmp_path / "c", progress=damage, **options)
    small_build(path, tmp_path / "c", **options)
    assert files_of(tmp_path / "c") == files_of(tmp_path / "good")


def test_what_stayed_is_compared_with_the_inputs(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", ["aaa", "bbb", "aaa"])
    small_build(path, tmp_path / "c", filter="exact-dedup")
    assert tokenriver.verify(tmp_path / "c", against_inputs=True, inputs_root=tmp_path) == []
    data = path.read_bytes()
    write_rows(path, ["aaa", "bbc", "aaa"])
    assert len(path.read_bytes()) == len(data)
    (found,) = tokenriver.verify(tmp_path / "c", against_inputs=True, inputs_root=tmp_path)
    assert "text at byte 2" in found.what
