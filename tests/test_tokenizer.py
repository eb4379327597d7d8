"""The one door to tokenizers."""

import hashlib
from pathlib import Path

import pytest

from tokenriver import registry
from tokenriver.errors import InputError
from tokenriver.tokenizer import cache_folders, load_tokenizer
from toy_tokenizers import byte_level, few_ranks, rank_file, write


def test_names() -> None:
    assert load_tokenizer("gpt2").encode("hello world").tolist() == [31373, 995]
    assert load_tokenizer("byte").encode("hi").tolist() == [104, 105]
    assert load_tokenizer("gpt2", encoder="reference").encoder == "reference"


def test_files_and_folders(tmp_path: Path) -> None:
    path = write(tmp_path, byte_level())
    for given in (path, str(path), tmp_path, str(tmp_path)):
        loaded = load_tokenizer(given)
        assert (loaded.name, loaded.encode("in").tolist()) == ("tokenizer.json", [260])
    table = tmp_path / "sub" / "toy.p50k_base.tiktoken"
    table.parent.mkdir()
    table.write_bytes(rank_file(few_ranks()))
    for given in (table, str(table), table.parent):
        assert load_tokenizer(given).name == "toy.p50k_base.tiktoken"


def test_a_name_wins_over_a_folder_of_that_name_and_a_path_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "byte").mkdir()
    write(tmp_path / "byte", byte_level())
    monkeypatch.chdir(tmp_path)
    assert load_tokenizer("byte").name == "byte"
    assert load_tokenizer("./byte").name == "tokenizer.json"
    assert load_tokenizer(Path("byte")).name == "tokenizer.json"


def test_a_dotted_name_is_a_module_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_lab").mkdir()
    module = ["from tokenriver.tokenizers import byte", "def load(name, **rest):", "    return byte.load(name)", ""]
    (tmp_path / "their_lab" / "river_tok.py").write_text("\n".join(module))
    monkeypatch.syspath_prepend(tmp_path)
    assert load_tokenizer("their_lab.river_tok").vocab_size == 257


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("gpt5", "expected a file or one of gpt2"),
        ("o200k_base", r"o200k_base\.tiktoken .*was not found"),
        ("missing.tiktoken", r"missing\.tiktoken: tokenizer: got no such file, looked for .*, .*missing"),
        ("models/tokenizer.json", "got no such file, looked for"),
        ("models/llama", "got no such file"),
        (Path("llama"), "got no such file"),
        ("no_lab.no_module", "cannot import"),
        ("", "expected a file or one of"),
    ],
)
def test_what_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | Path, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message) as error:
        load_tokenizer(given, search=[tmp_path])
    assert "\n" not in str(error.value)
    assert str(given) in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_bare_file_name_is_looked_for_in_the_searched_folders(tmp_path: Path) -> None:
    write(tmp_path, byte_level(), "toy.json")
    assert load_tokenizer("toy.json", search=[tmp_path / "none", tmp_path]).encode("in").tolist() == [260]


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"got no tokenizer\.json and 0 \.tiktoken or \.model files"):
        load_tokenizer(tmp_path)


def test_search_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = rank_file(few_ranks())
    tiktoken = registry.load("tokenizers", "tiktoken")
    toy = tiktoken.ENCODINGS["cl100k_base"]._replace(digest=hashlib.sha256(data).hexdigest())
    monkeypatch.setattr(tiktoken, "ENCODINGS", {"gpt2": tiktoken.ENCODINGS["gpt2"], "cl100k_base": toy})
    (tmp_path / "cl100k_base.tiktoken").write_bytes(data)
    assert load_tokenizer("cl100k_base", search=[tmp_path]).encode("the").tolist() == [257]


def test_cache_folders_are_those_of_tiktoken() -> None:
    assert cache_folders({"TIKTOKEN_CACHE_DIR": "/a", "DATA_GYM_CACHE_DIR": "/b"}) == [Path("/a"), Path("/b")]
    assert cache_folders({"DATA_GYM_CACHE_DIR": "/b", "TIKTOKEN_CACHE_DIR": ""}) == [Path("/b")]
    (default,) = cache_folders({})
    assert default.name == "data-gym-cache"
    assert default.is_absolute()
