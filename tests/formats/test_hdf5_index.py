"""shards.json: every form of it is read, no path leads out of its folder, and its sums must hold."""

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from tokenriver.errors import FormatError
from tokenriver.formats import _hdf5_index, hdf5

COUNTS = {"a.h5": 5, "sub/b.h5": 3, "c.h5": 0}
Row = dict[str, object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "shards"
    (made / "sub").mkdir(parents=True)
    for name, count in COUNTS.items():
        with h5py.File(made / name, "w") as file:
            file["tokens"] = np.arange(count, dtype="<u2")
    with h5py.File(tmp_path / "outside.h5", "w") as file:
        file["tokens"] = np.arange(5, dtype="<u2")
    return made


def _rows() -> list[Row]:
    rows: list[Row] = []
    for name, count in COUNTS.items():
        start = sum(int(str(row["token_count"])) for row in rows)
        rows.append({"path": name, "token_count": count, "global_start": start, "document_count": 1, "shard_id": "x"})
    return rows


def _index(folder: Path, content: object) -> Path:
    path = folder / "shards.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def _refused(folder: Path, content: object, words: str) -> None:
    path = _index(folder, content)
    with pytest.raises(FormatError) as caught:
        hdf5.find(folder)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)


def _found(folder: Path) -> list[tuple[str, int | None]]:
    return [(shard.path.relative_to(folder).as_posix(), shard.num_tokens) for shard in hdf5.find(folder)]


FORMS: list[Callable[[Path, str], str]] = [
    lambda folder, name: name,
    lambda folder, name: f"./{name}",
    lambda folder, name: f"shards/{name}",
    lambda folder, name: f"../out/shards/{name}",
    lambda folder, name: f"{folder}/{name}",
    lambda folder, name: f"/home/somebody/else/shards/{name}",
    lambda folder, name: f"C:\\data\\shards\\{name}".replace("/", "\\"),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("listed", [True, False])
def test_every_form_of_path_finds_the_file_in_the_folder(
    folder: Path, form: Callable[[Path, str], str], listed: bool
) -> None:
    rows = [row | {"path": form(folder, str(row["path"]))} for row in _rows()]
    _index(folder, rows if listed else {"version": 1, "total_tokens": 8, "chunk_size": 4, "shards": rows})
    assert _found(folder) == [("a.h5", 5), ("sub/b.h5", 3)]
    assert {shard.dtype for shard in hdf5.find(folder)} == {"uint16"}


def test_the_words_of_the_text_are_known_too(folder: Path) -> None:
    _index(folder, [{"path": "a.h5", "token_count": 5, "doc_count": 7, "more": None}])
    assert _found(folder) == [("a.h5", 5)]


@pytest.mark.parametrize("path", ["../outside.h5", "outside.h5", "link.h5", "away/outside.h5", "..", "/", "a\0b", ""])
def test_nothing_outside_is_read(folder: Path, path: str) -> None:
    (folder / "link.h5").symlink_to(folder.parent / "outside.h5")
    (folder / "away").symlink_to(folder.parent)
    _refused(folder, [{"path": path, "token_count": 5}], "expected")


def test_a_link_inside_is_fine(folder: Path) -> None:
    (folder / "link.h5").symlink_to("a.h5")
    _index(folder, [{"path": "link.h5", "token_count": 5}])
    assert _found(folder) == [("link.h5", 5)]


def _edited(number: int, **edit: object) -> list[Row]:
    rows = _rows()
    rows[number] |= edit
    return rows


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ('[{"path": "a.h5", "path": "a.h5", "token_count": 5}]', "twice"),
        ('[{"path": "a.h5", "token_count": NaN}]', "no JSON"),
        ([], "got no shards"),
        ("7", "got no shards"),
        ({"shards": []}, "expected the keys shards, total_tokens, version"),
        ({"version": 2, "total_tokens": 8, "shards": _rows()}, "index.version: got 2"),
        ({"version": True, "total_tokens": 8, "shards": _rows()}, "index.version: got True"),
        ({"version": 1, "total_tokens": 9, "shards": _rows()}, "total_tokens: got 9, expected 8, the sum"),
        (_edited(1, global_start=4), "shards[1].global_start: got 4, expected 5, the ids before it"),
        (_edited(1, global_start=-5), "shards[1].global_start: got -5, expected an integer"),
        (_edited(0, token_count=2**63), "shards[0].token_count"),
        (_edited(0, token_count="5"), "shards[0].token_count"),
        (_edited(0, token_count=True), "shards[0].token_count"),
        (_edited(0, sha256="AB"), "shards[0].sha256: got 'AB', expected 64 hex digits"),
        (_edited(0, path=7), "shards[0].path: got 7, expected a path"),
        (_edited(0, path="none.h5"), "shards[0].path: got 'none.h5', expected a file in the index's folder"),
        (_edited(1, path="x/a.h5"), "shards[1].path: got 'x/a.h5' for the second time"),
        ([{"path": "a.h5"}], "expected the keys path, token_count"),
        (["a.h5"], "got str, expected the keys path, token_count"),
        ([{"path": "c.h5", "token_count": 0}], "got 1 shards without an id"),
    ],
)
def test_what_does_not_hold_is_refused(folder: Path, content: object, words: str) -> None:
    _refused(folder, content, words)


def test_ten_thousand_shards_are_found_by_one_look_at_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index tells of all shards: only the first is opened, for the dtype."""
    opened: list[Path] = []
    real = hdf5.open_reader

    def counting(path: Path, *, dtype: str | None = None) -> object:
        opened.append(path)
        return real(path, dtype=dtype)

    with h5py.File(tmp_path / "0.h5", "w") as file:
        file["tokens"] = np.arange(1, dtype="<u2")
    for number in range(1, 300):
        (tmp_path / f"{number}.h5").write_bytes(b"")
    _index(tmp_path, [{"path": f"{number}.h5", "token_count": 1} for number in range(300)])
    monkeypatch.setattr(hdf5, "open_reader", counting)
    assert len(hdf5.find(tmp_path)) == 300
    assert opened == [tmp_path / "0.h5"]


def test_the_bytes_of_an_index() -> None:
    rows: list[Row] = [{"token_count": 5, "path": "a.h5"}]
    assert _hdf5_index.index_bytes(None, rows) == b'[\n  {\n    "path": "a.h5",\n    "token_count": 5\n  }\n]'
    assert json.loads(_hdf5_index.index_bytes(32, rows)) == {
        "version": 1,
        "chunk_size": 32,
        "total_tokens": 5,
        "shards": rows,
    }
