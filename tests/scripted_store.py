"""A store without a wire, for downloads that are about everything else."""

from tokenriver.wire import Access


class Scripted:
    """A store whose answers end after the next number of bytes."""

    def __init__(self, body: bytes, cuts: list[int], tag: str) -> None:
        self.body, self.cuts, self.tag = body, cuts, tag

    def open_store(self, access: Access) -> "Scripted":
        return self

    def open(self, url: str, start: int, token: str | None) -> "ScriptedAnswer":
        return ScriptedAnswer(self, start, self.cuts.pop(0) if self.cuts else len(self.body))

    def close(self) -> None: ...


class ScriptedAnswer:
    def __init__(self, store: Scripted, start: int, most: int) -> None:
        self.start, self.size, self.tag = start, len(store.body), store.tag
        self._rest = store.body[start : start + most]

    def read(self) -> bytes:
        data, self._rest = self._rest[:150], self._rest[150:]
        return data

    def close(self) -> None: ...
