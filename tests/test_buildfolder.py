"""The hidden folder: what is resumed, what is refused, what is cleaned up."""

import importlib
from pathlib import Path

import orjson
import pytest

import tokenriver
from small_builds import corpus_files, files_of, small_build, some_texts, write_rows
from tokenriver import files
from tokenriver.buildfolder import FAILED_NAME, LOCK_NAME, PLAN_NAME
from tokenriver.errors import FormatError, InputError, MismatchError, RiverError
from tokenriver.shards import ShardMaker

pytestmark = pytest.mark.usefixtures("quick_disk")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return write_rows(tmp_path / "in" / "rows.jsonl", some_texts(30))


def unfinished(inputs: Path, out: Path, **options: object) -> None:
    """A build that stops when its units are done."""

    def stop(self: ShardMaker, job: object, begun: object) -> None:
        raise RiverError("stopped")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShardMaker, "make", stop)
        with pytest.raises(RiverError, match="stopped"):
            small_build(inputs, out, **options)


def test_the_same_command_goes_on(tmp_path: Path, rows: Path) -> None:
    small_build(rows, tmp_path / "undisturbed")
    unfinished(rows, tmp_path / "out")
    with pytest.raises(FormatError, match="not committed"):
        tokenriver.open_corpus(tmp_path / "out")
    report = small_build(rows, tmp_path / "out")
    assert report.units == report.resumed > 2
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"framing": "none"}, "framing: got 'none', expected 'eos-after'"),
        ({"unit_bytes": 2048}, "unit_bytes: got 2048, expected 1024|digest_block_bytes: got 2048, expected 1024"),
        ({"val_fraction": 0.5}, "val_fraction: got 0.5, expected 0.0"),
        ({"max_tokens": 5}, "max_tokens: got 5, expected None"),
        ({"tokenizer": "gpt2"}, "tokenizer: got '[0-9a-f]{16}', expected '[0-9a-f]{16}'"),
    ],
)
def test_changed_options_are_refused(tmp_path: Path, rows: Path, options: dict[str, object], says: str) -> None:
    unfinished(rows, tmp_path / "out")
    before = files_of(tmp_path / "out")
    with pytest.raises(MismatchError, match=f"an unfinished build lies here: ({says})") as error:
        small_build(rows, tmp_path / "out", **options)
    assert "to begin anew" in str(error.value)
    assert files_of(tmp_path / "out") == before


def test_changed_inputs_are_refused_by_name(tmp_path: Path, rows: Path) -> None:
    unfinished(tmp_path / "in", tmp_path / "out")
    write_rows(tmp_path / "in" / "more.jsonl", ["more"])
    with pytest.raises(MismatchError, match=r"input 'more\.jsonl' is new since it was begun"):
        small_build(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in" / "more.jsonl").unlink()
    rows.write_bytes(rows.read_bytes() + b"\n")
    with pytest.raises(MismatchError, match=r"input 'rows\.jsonl' has changed since it was begun"):
        small_build(tmp_path / "in", tmp_path / "out")
    rows.rename(tmp_path / "in" / "other.jsonl")
    with pytest.raises(MismatchError, match=r"input 'other\.jsonl' is new"):
        small_build(tmp_path / "in", tmp_path / "out")


def test_beginning_anew_as_the_message_says(tmp_path: Path, rows: Path) -> None:
    small_build(rows, tmp_path / "undisturbed", framing="none")
    unfinished(rows, tmp_path / "out")
    files.remove_folder(tmp_path / "out" / ".build")
    small_build(rows, tmp_path / "out", framing="none")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")


def test_shards_that_another_plan_had_begun_do_not_stay(tmp_path: Path, rows: Path) -> None:
    unfinished(rows, tmp_path / "out", shard_tokens=500)
    (tmp_path / "out" / ".tokens_train_000003.bin.tmp").write_bytes(b"begun")
    (tmp_path / "out" / ".tokens_val_000000.docs.tmp").write_bytes(b"begun")
    (tmp_path / "out" / ".mine.tmp").write_bytes(b"mine")
    files.remove_folder(tmp_path / "out" / ".build")
    small_build(rows, tmp_path / "out")
    assert sorted(name for name in files_of(tmp_path / "out") if name.startswith(".")) == [".mine.tmp"]


def test_a_plan_that_is_none_is_refused(tmp_path: Path, rows: Path) -> None:
    unfinished(rows, tmp_path / "out")
    path = tmp_path / "out" / ".build" / PLAN_NAME
    good = path.read_bytes()
    for data in (b"", b"{", b"[]", b"3", b"{}", good[:-5], good.replace(b'"base"', b'"bass"')):
        path.write_bytes(data)
        with pytest.raises(FormatError, match="got no plan of a build, expected one; remove"):
            small_build(rows, tmp_path / "out")
    path.write_bytes(good)
    (path.parent / FAILED_NAME).write_bytes(b"{")
    small_build(rows, tmp_path / "out")


def test_one_build_at_a_time(tmp_path: Path, rows: Path) -> None:
    def meanwhile(done: int, total: int) -> None:
        with pytest.raises(InputError, match="another build is at work here"):
            small_build(rows, tmp_path / "out")

    report = small_build(rows, tmp_path / "out", progress=meanwhile)
    assert not report.complete_before
    assert small_build(rows, tmp_path / "out").complete_before


def test_a_build_that_was_committed_meanwhile_is_not_written_over(
    tmp_path: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading the manifest and taking the lock another build appends and ends."""
    first = write_rows(tmp_path / "b.jsonl", some_texts(9, start=50))
    second = write_rows(tmp_path / "c.jsonl", some_texts(9, start=90))
    small_build(rows, tmp_path / "out")
    module = importlib.import_module("tokenriver.build")

    def slow(path: Path) -> None:
        monkeypatch.setattr(module, "make_folder", files.make_folder)
        small_build(first, tmp_path / "out", append=True)
        files.make_folder(path)

    monkeypatch.setattr(module, "make_folder", slow)
    with pytest.raises(MismatchError, match="another build was committed here meanwhile; run the command again"):
        small_build(second, tmp_path / "out", append=True)
    small_build(second, tmp_path / "out", append=True)
    assert tokenriver.verify(tmp_path / "out") == []
    assert tokenriver.open_corpus(tmp_path / "out").num_documents == 48


def test_leftovers_of_a_committed_build_are_removed(tmp_path: Path, rows: Path) -> None:
    small_build(rows, tmp_path / "out")
    clean = files_of(tmp_path / "out")
    unfinished(rows, tmp_path / "other")
    for kept in (None, PLAN_NAME, LOCK_NAME):
        hidden = tmp_path / "out" / ".build"
        hidden.mkdir()
        for path in (tmp_path / "other" / ".build").iterdir():
            if kept != PLAN_NAME or path.name != PLAN_NAME:
                (hidden / path.name).write_bytes(path.read_bytes())
        assert small_build(rows, tmp_path / "out").complete_before
        assert files_of(tmp_path / "out") == clean
        assert not hidden.exists()


def test_an_unfinished_append_is_not_taken_for_leftovers(tmp_path: Path, rows: Path) -> None:
    small_build(rows, tmp_path / "out")
    old = corpus_files(tmp_path / "out")
    more = write_rows(tmp_path / "more.jsonl", some_texts(20, start=100))
    unfinished(more, tmp_path / "out", append=True)
    left = files_of(tmp_path / "out")
    assert small_build(rows, tmp_path / "out").complete_before
    assert files_of(tmp_path / "out") == left
    assert corpus_files(tmp_path / "out").items() >= old.items()
    report = small_build(more, tmp_path / "out", append=True)
    assert report.resumed == report.units
    other = write_rows(tmp_path / "other.jsonl", some_texts(20, start=200))
    unfinished(other, tmp_path / "out", append=True)
    with pytest.raises(MismatchError, match=r"input 'more2\.jsonl' is new"):
        small_build(write_rows(tmp_path / "more2.jsonl", ["x"]), tmp_path / "out", append=True)


def test_an_append_to_another_corpus_than_before_is_refused(tmp_path: Path, rows: Path) -> None:
    """The plan of an append names the corpus that it belongs to."""
    small_build(rows, tmp_path / "out")
    more = write_rows(tmp_path / "more.jsonl", some_texts(20, start=100))
    unfinished(more, tmp_path / "out", append=True)
    plan = tmp_path / "out" / ".build" / PLAN_NAME
    content = orjson.loads(plan.read_bytes())
    plan.write_bytes(orjson.dumps({**content, "base": "0" * 64}))
    with pytest.raises(MismatchError, match=r"base: got '[0-9a-f]{16}', expected '0000000000000000'"):
        small_build(more, tmp_path / "out", append=True)


def test_a_folder_with_files_of_others_is_not_built_into(tmp_path: Path, rows: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in ("tokens_train_000000.bin", "tokens_val_000003.bin", "bad_rows.jsonl"):
        (out / name).write_bytes(b"mine")
        with pytest.raises(InputError, match=f"{name}: belongs to no corpus; remove it"):
            small_build(rows, out)
        assert (out / name).read_bytes() == b"mine"
        (out / name).unlink()
    (out / "notes.txt").write_bytes(b"mine")
    (out / "tokens_train_000000.bin").write_bytes(b"mine")
    small_build(rows, out, name="others")
    assert (out / "notes.txt").read_bytes() == (out / "tokens_train_000000.bin").read_bytes() == b"mine"
