"""Runs a command as the console script would, in this process."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tokenriver import cli


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


def tokenriver(capsys: pytest.CaptureFixture[str], *words: object) -> Ran:
    """Exit code and both streams of `tokenriver *words`."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert "Traceback" not in err or "--traceback" in words
    code = left.value.code
    assert isinstance(code, int | None)
    return Ran(code or 0, out, err)
