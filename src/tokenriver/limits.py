"""When rows that gave nothing make the whole fail: one rule, and one wording, for documents and examples."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tokenriver.errors import InputError
from tokenriver.inputs import InputFile

MANY_BAD = 10
"""Fewer bad rows never stop a run that skips them."""


@dataclass(frozen=True, slots=True)
class BadRows:
    """When bad rows stop a run: any of them (fail), or more than `ratio` of the rows and at least ten (skip)."""

    on_bad: str = "skip"
    ratio: float = 0.01

    def check(self) -> None:
        """InputError for what cannot be meant."""
        if self.on_bad not in ("skip", "fail"):
            raise InputError(f"on_bad: got {self.on_bad!r}, expected skip or fail; choose one")
        if not 0 <= self.ratio <= 1:
            raise InputError(f"max_bad: got {self.ratio}, expected 0 to 1, a share of the rows")

    def meet(self, file: InputFile, at: int, reason: str, unit: str = "line") -> None:
        """InputError if any bad row, such as this one, is one too many."""
        if self.on_bad == "fail":
            raise InputError(
                f"{file.path}: {unit} {at}: got {reason}, expected no bad row; mend it, or use on_bad skip"
            )


def names_of(files: Sequence[InputFile]) -> str:
    """Some inputs in a few words."""
    return str(files[0].path) if len(files) == 1 else f"{files[0].path} and {len(files) - 1} more inputs"


@dataclass(frozen=True, slots=True)
class Fates:
    """What became of the rows of a run."""

    rows: int
    kept: int
    """Documents or examples."""
    bad: Counter[str]
    """By reason."""
    dropped: Counter[str]
    """Sound rows that a rule leaves out, by reason."""
    first_bad: str = ""
    """File, line and reason of the first."""
    listed: str = ""
    """Where bad rows are listed, if anywhere."""
    noun: str = "an example"
    """What a sound row gives."""
    hint: str = ""
    """What else may help."""

    def check(self, limits: BadRows, files: Sequence[InputFile]) -> None:
        """InputError if nothing is kept, or too many rows are bad."""
        where = names_of(files)
        what = ", ".join(f"{count} {reason}" for reason, count in sorted((self.bad + self.dropped).items()))
        bad = self.bad.total()
        first = f" (the first is {self.first_bad})" if bad else ""
        listed = f"; bad rows are listed in {self.listed}" if bad and self.listed else ""
        if not self.kept:
            raise InputError(
                f"{where}: got {self.rows} rows, none with {self.noun} ({what or 'all are blank'}), expected some; "
                f"give others, or mend them{first}{listed}{self.hint}"
            )
        if bad and limits.on_bad == "fail":
            raise InputError(
                f"{where}: got {bad} bad rows of {self.rows} ({what}), expected none; mend them{first}, or use on_bad "
                f"skip{listed}{self.hint}"
            )
        if bad >= MANY_BAD and bad > limits.ratio * self.rows:
            raise InputError(
                f"{where}: got {bad} bad rows of {self.rows} ({what}), expected at most {limits.ratio:.2%}; mend "
                f"them{first}, or raise max_bad{listed}{self.hint}"
            )
