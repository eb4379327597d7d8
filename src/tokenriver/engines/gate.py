"""The gate's own process: it holds the reference encoder and compares what workers have encoded with it."""

import io

from tokenriver.engines._fates import Fates, how
from tokenriver.engines._pipe import receive, send
from tokenriver.engines._sampling import Sample
from tokenriver.engines.nursery import Ends
from tokenriver.engines.worker import raise_error, sample_to_json
from tokenriver.errors import RiverError


class Gate:
    """Asks the last process of a nursery; one question at a time."""

    def __init__(self, number: int, ends: Ends, fates: Fates) -> None:
        self._number = number
        self._ends = ends
        self._fates = fates
        self._answers = io.BufferedReader(io.FileIO(ends.back.fileno(), "rb", closefd=False))

    def self_check(self) -> None:
        """Compare both encoders on the built-in hostile texts; MismatchError at the first difference."""
        self._ask({"self_check": True}, [])

    def check(self, sample: Sample) -> None:
        """Compare some documents' ids with the reference encoder's; MismatchError at the first difference."""
        head, columns = sample_to_json(sample)
        self._ask({"check": head}, columns)

    def _ask(self, head: dict[str, object], columns: list[bytes]) -> None:
        try:
            send(self._ends.to, head, columns)
            answer = receive(self._answers)
        except OSError:
            answer = None
        if answer is None:
            code = self._fates.code(self._number)
            raise RiverError(f"encoder check: its process died ({how(code)}); run the same command again to resume")
        raise_error(answer[0])
