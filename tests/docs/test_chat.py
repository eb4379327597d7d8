"""What docs/chat.md says is what happens."""

import re
from pathlib import Path

import pytest

from tokenriver import registry

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "chat.md").read_text(encoding="utf-8")


def test_the_examples_print_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "".join(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
    exec(code, {})
    expected = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert len(expected) == 5
    assert capsys.readouterr().out.splitlines() == expected


def test_the_list_names_every_template() -> None:
    named = re.findall(r"^- `([a-z0-9-]+)`:", TEXT, re.MULTILINE)
    assert sorted([*named, "jinja"]) == registry.names("templates")
