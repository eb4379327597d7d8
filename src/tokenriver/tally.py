"""What became of raw records: every row counted by its fate, the bad ones listed with file, line and reason."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from tokenriver.files import AtomicFile
from tokenriver.inputs import InputFile
from tokenriver.limits import BadRows, Fates
from tokenriver.records import BLANK, Fault


class ListingTally:
    """Counts the rows of one run and lists the bad ones as they come, however many they are. `path` is where; the file
    is there if there are any."""

    def __init__(self, path: Path, limits: BadRows) -> None:
        limits.check()
        self.path, self._limits = path, limits
        self.rows: Counter[int] = Counter()
        """Raw rows by number of the input."""
        self.bad: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        """Examples left out by a rule that was asked for."""
        self.notes: Counter[str] = Counter()
        self._raw: dict[int, hashlib._Hash] = {}
        self._sizes: Counter[int] = Counter()
        self._first = ""
        self._closing = ExitStack()
        self._file: AtomicFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The list is there, whatever ended the reading."""
        self._closing.close()

    def raw(self, source: int, data: bytes) -> None:
        """Stored bytes of an input, as they are read from its start on."""
        if source not in self._raw:
            self._raw[source] = hashlib.sha256()
        self._raw[source].update(data)
        self._sizes[source] += len(data)

    def digests(self, files: Sequence[InputFile]) -> dict[int, str]:
        """sha256 of those inputs of which `raw` was told all."""
        whole = [source for source in self._raw if self._sizes[source] == files[source].size]
        return {source: self._raw[source].hexdigest() for source in whole}

    def fault(self, file: InputFile, record: int, offset: int | None, fault: Fault) -> None:
        """A row that gave no example; blank ones are no fault. InputError if any bad row is one too many."""
        if fault.reason == BLANK:
            self.notes[BLANK] += 1
            return
        detail = fault.detail[:200]
        self._limits.meet(file, record + 1, f"{fault.reason} ({detail})" if detail else fault.reason)
        self.bad[fault.reason] += 1
        self._first = self._first or f"{file.name} line {record + 1}: {fault.reason}"
        row = {"file": file.name, "line": record + 1, "offset": offset, "reason": fault.reason}
        if detail:
            row["detail"] = detail
        if self._file is None:
            self._file = self._closing.enter_context(AtomicFile(self.path))
        self._file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))

    def check(self, kept: int, files: Sequence[InputFile]) -> None:
        """When all rows were read. InputError for no example at all, or for too many bad rows."""
        bad, rows, gone = self.bad.total(), self.rows.total(), self.dropped.total()
        assert rows == kept + bad + gone + self.notes[BLANK], "law 1: every row has one fate"
        Fates(rows, kept, self.bad, self.dropped, self._first, str(self.path)).check(self._limits, files)

    def balance(self) -> dict[str, Any]:
        """Rows by fate, for a manifest."""
        return {
            "rows": self.rows.total(),
            "bad_rows": dict(sorted(self.bad.items())),
            "documents": {"dropped": dict(sorted(self.dropped.items()))},
            "notes": dict(sorted(self.notes.items())),
        }
