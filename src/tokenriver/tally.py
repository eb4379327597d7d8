"""What became of raw records: every row counted by its fate, the bad ones listed with file, line and reason."""

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from tokenriver.commit import MANY_BAD, BadRows
from tokenriver.errors import InputError
from tokenriver.files import AtomicFile
from tokenriver.inputs import InputFile
from tokenriver.records import BLANK, Fault


class Tally:
    """Counts the rows of one run. `path` is where bad rows are listed; the file is there if there are any."""

    def __init__(self, path: Path, limits: BadRows) -> None:
        if limits.on_bad not in ("skip", "fail"):
            raise InputError(f"on_bad: got {limits.on_bad!r}, expected skip or fail; choose one")
        self.path, self._limits = path, limits
        self.rows: Counter[int] = Counter()
        """Raw rows by number of the input."""
        self.bad: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        """Examples left out by a rule that was asked for."""
        self.notes: Counter[str] = Counter()
        self._closing = ExitStack()
        self._file: AtomicFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The list is there, whatever ended the reading."""
        self._closing.close()

    def fault(self, file: InputFile, record: int, offset: int | None, fault: Fault) -> None:
        """A row that gave no example; blank ones are no fault. InputError if any bad row is one too many."""
        if fault.reason == BLANK:
            self.notes[BLANK] += 1
            return
        row = {"file": file.name, "line": record + 1, "offset": offset, "reason": fault.reason}
        if fault.detail:
            row["detail"] = fault.detail[:200]
        if self._limits.on_bad == "fail":
            detail = f" ({fault.detail[:200]})" if fault.detail else ""
            raise InputError(
                f"{file.path}: line {record + 1}: got {fault.reason}{detail}, expected no bad row; mend it"
            )
        self.bad[fault.reason] += 1
        if self._file is None:
            self._file = self._closing.enter_context(AtomicFile(self.path))
        self._file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))

    def check(self, kept: int, files: Sequence[InputFile]) -> None:
        """When all rows were read. InputError for no example at all, or for too many bad rows."""
        bad, rows, gone = self.bad.total(), self.rows.total(), self.dropped.total()
        assert rows == kept + bad + gone + self.notes[BLANK], "law 1: every row has one fate"
        names = str(files[0].path) if len(files) == 1 else f"{files[0].path} and {len(files) - 1} more inputs"
        what = ", ".join(f"{count} {reason}" for reason, count in sorted((self.bad + self.dropped).items()))
        listed = f"; bad rows are listed in {self.path}" if bad else ""
        if bad >= MANY_BAD and bad > self._limits.ratio * rows:
            raise InputError(
                f"{names}: got {bad} bad rows of {rows} ({what}), expected at most {self._limits.ratio:.2%}; mend "
                f"them, or raise max_bad{listed}"
            )
        if not kept:
            raise InputError(f"{names}: got {rows} rows, none with an example ({what}), expected some{listed}")

    def balance(self) -> dict[str, Any]:
        """Rows by fate, for a manifest."""
        return {
            "rows": self.rows.total(),
            "bad_rows": dict(sorted(self.bad.items())),
            "documents": {"dropped": dict(sorted(self.dropped.items()))},
            "notes": dict(sorted(self.notes.items())),
        }
