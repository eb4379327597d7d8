"""The documents tell the truth: the example runs as it stands, commands and files that are named exist."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from tokenriver import registry
from tokenriver.cli import _app
from tokenriver.errors import RiverError
from tokenriver.sources import _reasons

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_example_runs_as_an_unguarded_script(tmp_path: Path) -> None:
    (example,) = _blocks(README, "python")
    assert len(example.splitlines()) == 12
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "The square of" in ran.stdout
    assert "'step'" in ran.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "example.py", "squares.jsonl"]


def _commands() -> list[str]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    return sorted({line.split("#")[0].strip() for line in re.findall(r"^ +(tokenriver .*)$", text, re.MULTILINE)})


@pytest.mark.parametrize("command", _commands())
def test_every_command_line_in_the_documents_parses(command: str) -> None:
    name, *words = shlex.split(command)[1:]
    group = get_command(_app([name]))
    assert isinstance(group, TyperGroup)
    asked = group.commands[name]
    if isinstance(asked, TyperGroup):
        name, *words = words
        asked = asked.commands[name]
    asked.make_context(name, words)  # raises on an unknown option or a wrong value


def test_the_tree_names_every_room() -> None:
    tree = README.partition("## The tree")[2].partition("\n## ")[0]
    named = set(re.findall(r"^      ([a-z0-9_]+(?:\.py|/))", tree, re.MULTILINE))
    source = ROOT / "src" / "tokenriver"
    rooms = {path.name for path in source.glob("*.py") if not path.name.startswith("__")}
    rooms |= {f"{path.parent.name}/" for path in source.glob("*/__init__.py")}
    assert named == rooms


def test_the_tree_names_every_key_of_a_small_registry() -> None:
    tree = README.partition("## The tree")[2].partition("\n## ")[0]
    for kind in ("sources", "tokenizers", "formats", "packing", "orders", "filters", "remotes", "adapters"):
        line = next(line for line in tree.splitlines() if line.strip().startswith(f"{kind}/"))
        for name in registry.names(kind):
            assert re.search(rf"\b{name}\b", line), f"README: the line of {kind}/ does not name {name}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_are_named_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:docs|tests|scripts|benchmarks|src)/[A-Za-z0-9_./-]+)`", text):
        assert (ROOT / name).exists(), f"{path.name} names {name}"


def test_the_reasons_in_the_document_are_those_of_the_code() -> None:
    text = (ROOT / "docs" / "errors-and-input.md").read_text(encoding="utf-8")
    bad, notes = text.partition("A note is a rule")[::2]
    values = {name: value for name, value in vars(_reasons).items() if name.isupper()}
    noted = {values[name] for name in ("BLANK", "EMPTY", "LONE_SURROGATE", "BYTE_ORDER_MARK")}
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \|", bad, re.MULTILINE)) == set(values.values()) - noted
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \|", notes.partition("## Messages")[0], re.MULTILINE)) == noted
    children = {error.__name__ for error in RiverError.__subclasses__()}
    assert set(re.findall(r"^\| `(\w+Error)` \|", text, re.MULTILINE)) == children
