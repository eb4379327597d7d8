"""A recipe is data that is checked before it is used: each way to get it wrong is one line that names the key."""

from pathlib import Path

import pytest

from tokenriver.errors import FormatError, InputError
from tokenriver.recipe import RecipeFile, read_recipe

GOOD = """
title = "T"
licence = "L"
base = "https://host/folder"
files = [{ path = "a/{08..10}.jsonl" }, { path = "b.txt", split = "val", size = 3 }]
[build]
tokenizer = "byte"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_recipe_of_ones_own(tmp_path: Path) -> None:
    found = read_recipe(write(tmp_path, GOOD))
    assert (found.name, found.title, found.splits, found.build) == (
        "mine",
        "T",
        ["train", "val"],
        {"tokenizer": "byte"},
    )
    named = [RecipeFile(f"a/{n}.jsonl") for n in ("08", "09", "10")]
    assert found.files == (*named, RecipeFile("b.txt", size=3, split="val"))
    assert found.becomes == "native, byte"


def test_an_unknown_name_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"recipe: got 'no_such', expected one of .*tinyshakespeare.*\.toml"):
        read_recipe("no_such")
    with pytest.raises(InputError, match="cannot read"):
        read_recipe(tmp_path / "no.toml")


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('title = "T"', "", "title: got none, expected a text"),
        ('title = "T"', "title = 3", "title: got 3, expected a text"),
        ('title = "T"', 'title = "T"\nsizes = 3', "sizes: got an unknown key, expected some of about, base"),
        ('title = "T"', 'title = "T"\nsize = -3', "size: got -3, expected an integer from 1"),
        ('title = "T"', 'title = "T"\nsize = true', "size: got True"),
        ('title = "T"', 'title = "T"\nhub = "a/b"', "got both of base and hub, expected one"),
        ('title = "T"', 'title = "T"\nrevision = "main"', "revision: got it without hub"),
        ('title = "T"', 'title = "T"\ncommand = ["sft", "{files}"]', "got both of build and command"),
        ('title = "T"', 'title = "T"\nmirrors = { a = "nowhere" }', "mirrors.a: got 'nowhere', expected an address"),
        ('title = "T"', 'title = "T"\ntrain_characters = 0.9', "train_characters: expected a build of one file"),
        ('title = "T"', 'title = "T"\ntrain_characters = 1', "train_characters: got 1, expected a number above 0"),
        ('base = "https://host/folder"', "", "got neither of base and hub"),
        ('base = "https://host/folder"', 'base = "/etc"', "base: got '/etc', expected an address"),
        ('base = "https://host/folder"', 'base = "https://me:word@host/"', "base: got"),
        ('base = "https://host/folder"', 'hub = "name"', "hub: got 'name', expected OWNER/NAME"),
        ('"b.txt"', '"../b.txt"', r"files.path: got '../b.txt', expected a path inside"),
        ('"b.txt"', '"/b.txt"', "files.path: got '/b.txt'"),
        ('"b.txt"', '"a//b.txt"', "files.path"),
        ('"b.txt"', '".hidden"', "files.path"),
        ('"b.txt"', '"a\\\\b.txt"', "files.path"),
        ('"b.txt"', '"b.txt?x=1"', "files.path: got the pattern"),
        ('"b.txt"', '"*.txt"', r"files.path: got the pattern '\*.txt', expected a name"),
        ('"b.txt"', '"a/09.jsonl"', "files.path: got 'a/09.jsonl' twice"),
        ('"b.txt"', '"{1..3}{1..3}"', "expected one {00..29} at most"),
        ('"b.txt"', '"{3..1}"', "expected numbers in order"),
        ('"b.txt"', '"{0..999999}"', "100,000 at most"),
        ('"b.txt"', '"{1..3}.txt"', "with size, sha256 or url, expected a single file"),
        ("size = 3", 'sha256 = "00"', "files.sha256: got '00', expected 64 hex digits"),
        ("size = 3", "shape = 3", "files.shape: got an unknown key"),
        ("size = 3", 'use = "text"', "files.use: got 'text'"),
        ('files = [{ path = "a/{08..10}.jsonl" }, ', "files = [3, ", "files: got int, expected tables"),
        ('[{ path = "a/{08..10}.jsonl" }, { path = "b.txt", split = "val", size = 3 }]', "[]", r"files: got \[\]"),
        ('tokenizer = "byte"', 'tokeniser = "byte"', "build.tokeniser: got an unknown key"),
        ('tokenizer = "byte"', "val_tokens = 1.5", "build.val_tokens: got 1.5, expected an integer"),
        ('tokenizer = "byte"', "val_fraction = 2.0", "build.val_fraction: got 2.0"),
        ('[build]\ntokenizer = "byte"', "", "got neither of build and command"),
        ('[build]\ntokenizer = "byte"', 'command = ["sft"]', "command: got .* and {files} once"),
        ('[build]\ntokenizer = "byte"', 'command = ["sft", "{files}", "{home}/a"]', "command: got '{home}/a'"),
        (
            '[build]\ntokenizer = "byte"',
            'command = ["sft", "{files}", "{out}/../a"]',
            "command: got '{out}/../a', expected",
        ),
        ('[build]\ntokenizer = "byte"', 'command = ["sft", "{files}", "{out}"]', "a name behind it"),
        ('title = "T"', "title = ", "got no TOML"),
        ('title = "T"', f"title = {'[' * 3000}", "got no TOML"),
    ],
)
def test_each_mistake_names_its_key(tmp_path: Path, old: str, new: str, what: str) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(FormatError, match=what) as caught:
        read_recipe(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value).partition("got no TOML")[0]


def test_a_file_that_is_no_recipe(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    for data, what in ((b"\xff", "got no TOML"), (b"#" * (1 << 21), "got more than 1048576 bytes")):
        path.write_bytes(data)
        with pytest.raises(FormatError, match=what):
            read_recipe(path)
