"""From what was typed to the list of files: order, names, and everything that must not be taken or left in silence."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from source_cases import SKIPPABLE, gz, zst
from tokenriver.errors import InputError
from tokenriver.inputs import InputFile, find_inputs, seen_fields
from tokenriver.streams import read_blocks

ROW = b'{"text":"a"}\n'


def put(path: Path, data: bytes = ROW) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def names(found: list[InputFile]) -> list[str]:
    return [file.name for file in found]


# ------------------------------------------------------------------------------------------- which files


def test_a_file_is_itself(tmp_path: Path) -> None:
    path = put(tmp_path / "sub" / "a.jsonl")
    assert find_inputs([path]) == [InputFile(path, "a.jsonl", len(ROW), "jsonl", "")]
    assert find_inputs([str(path)]) == find_inputs([path])


def test_a_folder_is_every_file_below_it_by_the_bytes_of_its_path(tmp_path: Path) -> None:
    for name in ("b/2.jsonl", "b/10.jsonl", "a.jsonl", "B.jsonl", "b.jsonl", "b/c/\u00e9.jsonl", "\u00e9.jsonl"):
        put(tmp_path / name)
    assert names(find_inputs([tmp_path])) == [
        "B.jsonl", "a.jsonl", "b.jsonl", "b/10.jsonl", "b/2.jsonl", "b/c/\u00e9.jsonl", "\u00e9.jsonl",
    ]  # fmt: skip


def test_the_disk_s_own_order_does_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(30):
        put(tmp_path / f"{i % 4}" / f"{i}.jsonl")
    expected = find_inputs([tmp_path])
    draw, listdir = random.Random(5), os.listdir

    def shuffled(path: Path) -> list[str]:
        found = listdir(path)
        draw.shuffle(found)
        return found

    monkeypatch.setattr("os.listdir", shuffled)
    assert all(find_inputs([tmp_path]) == expected for _ in range(5))


def test_names_are_relative_to_the_deepest_common_folder(tmp_path: Path) -> None:
    put(tmp_path / "x" / "deep" / "1.jsonl")
    put(tmp_path / "x" / "deep" / "y" / "2.jsonl")
    put(tmp_path / "x" / "other" / "3.jsonl")
    assert names(find_inputs([tmp_path / "x" / "deep"])) == ["1.jsonl", "y/2.jsonl"]
    assert names(find_inputs([tmp_path / "x" / "other", tmp_path / "x" / "deep" / "y"])) == [
        "other/3.jsonl",
        "deep/y/2.jsonl",
    ]


def test_inputs_keep_the_order_in_which_they_were_given(tmp_path: Path) -> None:
    paths = [put(tmp_path / f"{name}.jsonl") for name in "cab"]
    assert [file.path for file in find_inputs(paths)] == paths


def test_hidden_files_and_folders_are_passed_over_unless_named(tmp_path: Path) -> None:
    for name in (".git/x.jsonl", ".cache.jsonl", "a.jsonl", "b/.tmp/y.jsonl"):
        put(tmp_path / name)
    assert names(find_inputs([tmp_path])) == ["a.jsonl"]
    assert names(find_inputs([tmp_path / ".cache.jsonl"])) == [".cache.jsonl"]


def test_globs(tmp_path: Path) -> None:
    for name in ("a1.jsonl", "a2.jsonl", "b.jsonl", "sub/a3.jsonl", "sub/deep/a4.jsonl"):
        put(tmp_path / name)
    assert names(find_inputs([f"{tmp_path}/a*.jsonl"])) == ["a1.jsonl", "a2.jsonl"]
    assert names(find_inputs([f"{tmp_path}/**/a*.jsonl"])) == [
        "a1.jsonl", "a2.jsonl", "sub/a3.jsonl", "sub/deep/a4.jsonl",
    ]  # fmt: skip
    assert names(find_inputs([f"{tmp_path}/s*"])) == ["a3.jsonl", "deep/a4.jsonl"]
    assert len(find_inputs([f"{tmp_path}/**"])) == 5


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path: Path) -> None:
    path = put(tmp_path / "a[1].jsonl")
    put(tmp_path / "a1.jsonl")
    assert [file.path for file in find_inputs([path])] == [path]


def test_include_chooses_by_name_or_by_path(tmp_path: Path) -> None:
    for name in ("train/a.jsonl", "train/b.jsonl", "test/a.jsonl", "README.md"):
        put(tmp_path / name)
    assert names(find_inputs([tmp_path], include=["*.jsonl"])) == ["test/a.jsonl", "train/a.jsonl", "train/b.jsonl"]
    assert names(find_inputs([tmp_path], include=["train/*"])) == ["a.jsonl", "b.jsonl"]
    assert names(find_inputs([tmp_path], include=["test/*", "b.*"])) == ["test/a.jsonl", "train/b.jsonl"]
    with pytest.raises(InputError, match=r"found no file that matches \*\.txt"):
        find_inputs([tmp_path], include=["*.txt"])


def test_the_output_folder_is_no_input(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl")
    inside = put(tmp_path / "out" / "bad_rows.jsonl")
    assert names(find_inputs([tmp_path], exclude=tmp_path / "out")) == ["a.jsonl"]
    for entry in (inside, tmp_path / "out"):
        with pytest.raises(InputError, match="lies in the output folder"):
            find_inputs([entry], exclude=tmp_path / "out")
    with pytest.raises(InputError, match="found no file in this folder"):
        find_inputs([put(tmp_path / "n" / "out" / "x.jsonl").parent.parent], exclude=tmp_path / "n" / "out")


def test_links_are_followed_and_loops_are_not(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.jsonl")
    put(tmp_path / "elsewhere" / "b.jsonl")
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "far").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "in")
    assert names(find_inputs([tmp_path / "in"])) == ["a.jsonl", "far/b.jsonl"]


def test_the_same_file_twice_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").symlink_to(path)
    twice: list[list[str | Path]] = [[path, path], [tmp_path], [path, tmp_path / "b.jsonl"], [path, f"{tmp_path}/a*"]]
    for inputs in twice:
        with pytest.raises(InputError, match=r"given twice, also as .*a\.jsonl; name it once"):
            find_inputs(inputs)


@pytest.mark.parametrize("name", ["absent.jsonl", "absent*.jsonl", "https://host/a.jsonl", "-"])
def test_what_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"URL|no such file|matches nothing"):
        find_inputs([name if "://" in name else f"{tmp_path}/{name}"])


def test_nothing_given_is_an_error() -> None:
    with pytest.raises(InputError, match="found no file in an empty list"):
        find_inputs([])


def test_a_broken_link_and_a_pipe_are_named(tmp_path: Path) -> None:
    link = tmp_path / "in" / "gone.jsonl"
    put(tmp_path / "in" / "a.jsonl")
    link.symlink_to(tmp_path / "absent")
    for entry in (link, tmp_path / "in"):
        with pytest.raises(InputError, match=r"gone\.jsonl"):
            find_inputs([entry])
    link.unlink()
    os.mkfifo(tmp_path / "in" / "pipe.jsonl")
    for entry in (tmp_path / "in" / "pipe.jsonl", tmp_path / "in"):
        with pytest.raises(InputError, match=r"pipe\.jsonl: got a device, pipe or socket"):
            find_inputs([entry])


def test_a_name_that_json_cannot_hold_is_refused(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.jsonl"
    Path(os.fsdecode(path)).write_bytes(ROW)
    with pytest.raises(InputError, match="expected valid UTF-8; rename"):
        find_inputs([tmp_path])


# ------------------------------------------------------------------------------------------- empty files


@pytest.mark.parametrize("data", [b"", gz(b""), zst(b""), SKIPPABLE])
def test_an_empty_file_is_an_error(data: bytes, tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl")
    for name in ("empty.jsonl", "empty.parquet", "empty.dat"):
        path = put(tmp_path / name, data)
        for entry in (path, tmp_path):
            with pytest.raises(InputError, match="got an empty file"):
                find_inputs([entry])
        path.unlink()


def test_an_empty_text_met_in_a_folder_is_an_empty_document(tmp_path: Path) -> None:
    put(tmp_path / "a.txt", b"words")
    empty = put(tmp_path / "b.txt", b"")
    assert names(find_inputs([tmp_path])) == ["a.txt", "b.txt"]
    with pytest.raises(InputError, match="got an empty file"):
        find_inputs([empty])
    put(tmp_path / "c.py", b"")
    assert [file.kind for file in find_inputs([tmp_path], source="text")] == ["text"] * 3


# ------------------------------------------------------------------------- folders of datasets.save_to_disk


def save(folder: Path, texts: list[str], parts: list[str]) -> None:
    """A folder as `datasets.save_to_disk` writes it."""
    folder.mkdir(parents=True)
    for i, name in enumerate(parts):
        table = pa.table({"text": texts[i :: len(parts)]})
        with pa.ipc.new_stream(folder / name, table.schema) as writer:
            writer.write_table(table)
    state = {"_data_files": [{"filename": name} for name in parts], "_fingerprint": "0", "_split": None}
    put(folder / "state.json", json.dumps(state).encode())
    put(folder / "dataset_info.json", b"{}")
    put(folder / "cache-1234.arrow", (folder / parts[0]).read_bytes())


def test_a_saved_dataset_is_its_own_files_in_its_own_order(tmp_path: Path) -> None:
    parts = ["data-99999-of-100001.arrow", "data-100000-of-100001.arrow"]
    save(tmp_path / "in" / "set", ["a", "b"], parts)
    for entry in (tmp_path / "in", tmp_path / "in" / "set"):
        found = find_inputs([entry])
        assert names(found) == parts
        assert {file.kind for file in found} == {"arrow"}
    put(tmp_path / "in" / "more.jsonl")
    assert names(find_inputs([tmp_path / "in"])) == ["more.jsonl", *(f"set/{name}" for name in parts)]


def test_a_saved_dataset_of_several_splits_asks_which(tmp_path: Path) -> None:
    for split in ("train", "test"):
        save(tmp_path / "set" / split, ["a"], ["data-00000-of-00001.arrow"])
    put(tmp_path / "set" / "dataset_dict.json", json.dumps({"splits": ["train", "test"]}).encode())
    for entry in (tmp_path, tmp_path / "set"):
        with pytest.raises(InputError, match="got the splits test, train of one dataset, expected one"):
            find_inputs([entry])
    assert len(find_inputs([tmp_path / "set" / "train"])) == 1
    put(tmp_path / "set" / "dataset_dict.json", json.dumps({"splits": ["train"]}).encode())
    (tmp_path / "set" / "test").rename(tmp_path / "kept")
    assert names(find_inputs([tmp_path / "set"])) == ["data-00000-of-00001.arrow"]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"_data_files": [{"filename": "../../secret.arrow"}]}, "which is not in the folder"),
        ({"_data_files": [{"filename": "data-1.arrow"}, {"filename": 7}]}, "got 7, which is not in the folder"),
        (
            {"_data_files": [{"filename": "data-1.arrow"}], "_indices_data_files": [{"filename": "i"}]},
            "flatten_indices",
        ),
        ({"_data_files": "all"}, "found no file"),
        ({}, "found no file"),
    ],
)
def test_a_state_that_cannot_be_trusted_is_refused(state: dict[str, object], message: str, tmp_path: Path) -> None:
    save(tmp_path / "set", ["a"], ["data-1.arrow"])
    put(tmp_path / "set" / "state.json", json.dumps(state).encode())
    with pytest.raises(InputError, match=message):
        find_inputs([tmp_path / "set"])
    put(tmp_path / "set" / "state.json", b"{")
    with pytest.raises(InputError, match=r"state\.json: content: got no JSON"):
        find_inputs([tmp_path / "set"])


# ------------------------------------------------------------------------------------------- kinds


def parquet(path: Path) -> bytes:
    pq.write_table(pa.table({"text": ["a"]}), path)
    return path.read_bytes()


@pytest.mark.parametrize("pack", [None, gz, zst], ids=["plain", "gzip", "zstd"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.JSONL", "a.ndjson.gz", "a.json.zst", "a.jsonl.gzip"])
def test_compression_is_told_by_content(name: str, pack: Callable[[bytes], bytes] | None, tmp_path: Path) -> None:
    (found,) = find_inputs([put(tmp_path / name, pack(ROW) if pack else ROW)])
    assert found.kind == "jsonl"
    assert found.compression == ("" if pack is None else "gzip" if pack is gz else "zstd")


def test_content_and_name_must_agree(tmp_path: Path) -> None:
    table = parquet(tmp_path / "a.parquet")
    for name, data, content, kind in (
        ("a.txt", ROW, "jsonl", "text"),
        ("b.jsonl", table, "parquet", "jsonl"),
        ("c.parquet", ROW, "jsonl", "parquet"),
        ("d.txt.gz", gz(ROW), "jsonl", "text"),
        ("e.arrow", table, "parquet", "arrow"),
    ):
        path = put(tmp_path / name, data)
        with pytest.raises(InputError, match=f"content of {content} under the name of {kind}.*--source {content}"):
            find_inputs([path])
    assert find_inputs([tmp_path / "a.txt"], source="jsonl")[0].kind == "jsonl"
    assert find_inputs([tmp_path / "a.txt"], source="text")[0].kind == "text"


def test_an_unknown_name_is_never_text(tmp_path: Path) -> None:
    for name, data, hint in (
        ("a.dat", ROW, "looks like jsonl; name the kind with --source jsonl"),
        ("README.md", b"# words", "--source KIND"),
        ("noname", b"words", "--source KIND"),
        ("b.dat", parquet(tmp_path / "x.parquet"), "looks like parquet"),
    ):
        path = put(tmp_path / name, data)
        with pytest.raises(InputError, match=f"got an unknown name ending, expected one of .*{hint}"):
            find_inputs([path])
    assert find_inputs([tmp_path / "README.md"], source="text")[0].kind == "text"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'[{"text":"a"}]', "got a JSON array, expected one object a line; rewrite it: jq"),
        (b'\xef\xbb\xbf\n [\n{"text":"a"}\n]', "got a JSON array"),
        (b'{\n  "text": "a"\n}\n', "one JSON value over several lines"),
        ('{"text":"a"}\n'.encode("utf-16"), "got UTF-16, expected UTF-8"),
        ('{"text":"a"}\n'.encode("utf-16-le"), "got UTF-16, expected UTF-8"),
        ('{"text":"a"}\n'.encode("utf-16-be"), "got UTF-16, expected UTF-8"),
        ('{"text":"a"}\n'.encode("utf-32"), "got UTF-32, expected UTF-8"),
        ('{"text":"a"}\n'.encode("utf-32-be"), "got UTF-32, expected UTF-8"),
        (b"BZh91AY&SY", "got bzip2 data"),
        (b"\xfd7zXZ\0\0\4", "got xz data"),
        (b"PK\3\4\x14\0", "got a zip archive"),
        (b"a.jsonl".ljust(257, b"\0") + b"ustar  ", "got a tar archive"),
        (gz(ROW), "compressed data inside compressed data"),
    ],
)
@pytest.mark.parametrize("source", ["auto", "jsonl"])
def test_what_is_not_rows_is_refused_with_its_cure(data: bytes, message: str, source: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        find_inputs([put(tmp_path / "a.jsonl.zst", zst(data))], source=source)
    if "compressed" not in message:
        with pytest.raises(InputError, match=message):
            find_inputs([put(tmp_path / "a.jsonl", data)], source=source)


def test_text_may_hold_what_rows_may_not(tmp_path: Path) -> None:
    for data in (b"[1]", b"{\n}", b"a\0b", b"x"):
        assert find_inputs([put(tmp_path / "a.txt", data)])[0].kind == "text"
    with pytest.raises(InputError, match="got UTF-16"):
        find_inputs([put(tmp_path / "a.txt", "words".encode("utf-16"))])


def test_rows_whose_first_is_bad_are_still_rows(tmp_path: Path) -> None:
    for data in (b"nonsense\n" + ROW, b"\n\n" + ROW, b"{}\n", b'{"text":"' + b"x" * 100_000, b"\xff\n" + ROW):
        assert find_inputs([put(tmp_path / "a.jsonl", data)])[0].kind == "jsonl"


def test_columns_inside_gzip_are_refused(tmp_path: Path) -> None:
    data = parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="got gzip around parquet, expected it bare; unpack it"):
        find_inputs([put(tmp_path / "b.parquet.gz", gz(data))])


def test_a_file_that_is_none_of_its_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected parquet \(\.parquet\), got bytes that are none"):
        find_inputs([put(tmp_path / "a.parquet", b"words")])
    with pytest.raises(InputError, match=r"expected arrow \(--source\), got bytes that are none"):
        find_inputs([put(tmp_path / "a.bin", b"words")], source="arrow")


def test_an_unknown_source_is_named_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got 'csv', expected one of arrow, jsonl, parquet, text"):
        find_inputs([put(tmp_path / "a.csv")], source="csv")


@pytest.mark.parametrize("make", [gz, zst])
def test_an_archive_cut_early_is_left_for_the_build_to_name(make: Callable[[bytes], bytes], tmp_path: Path) -> None:
    packed = make(b"".join(b'{"text":"%d"}\n' % i for i in range(9000)))
    for length in (len(packed) // 2, 20):
        (found,) = find_inputs([put(tmp_path / "a.jsonl.zst", packed[:length])])
        assert (found.kind, found.size) == ("jsonl", length)
        with pytest.raises(InputError, match="truncated"):
            list(read_blocks(found.path, found.compression))
    with pytest.raises(InputError, match="truncated"):
        find_inputs([put(tmp_path / "a.dat", packed[:20])])
    for length in (1, 3):
        with pytest.raises(InputError, match="compression: got none"):
            find_inputs([put(tmp_path / "a.jsonl.zst", zst(packed)[:length])])


def test_plain_rows_under_the_name_of_an_archive_are_rows(tmp_path: Path) -> None:
    assert find_inputs([put(tmp_path / "a.jsonl.gz")])[0].compression == ""
    with pytest.raises(InputError, match=r"compression: got none .* under a name that ends in \.gz"):
        find_inputs([put(tmp_path / "a.txt.gz", b"words")])


def test_the_fields_that_are_there_can_be_named(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", zst(b'{"content":"a","id":1}\n' * 9000))
    parquet(tmp_path / "b.parquet")
    put(tmp_path / "c.txt", b"words")
    assert [seen_fields(file) for file in find_inputs([tmp_path])] == [["content", "id"], ["text"], []]


def test_columns_are_recognised_without_pyarrow(tmp_path: Path) -> None:
    save(tmp_path / "in" / "set", ["a"], ["data-00000-of-00001.arrow"])
    parquet(tmp_path / "in" / "a.parquet")
    put(tmp_path / "in" / "b.jsonl")
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from tokenriver.inputs import find_inputs\n"
        "print(*[file.kind for file in find_inputs([sys.argv[1]])])\n"
        "try: find_inputs([sys.argv[1] + '/a.parquet'], source='parquet')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "in")]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert out[0] == "parquet jsonl arrow"
    assert out[1].startswith("MissingPackageError sources 'parquet' needs the package pyarrow; run: pip install")
