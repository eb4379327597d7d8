"""The other side of a nursery: load what every worker needs, fork the workers, and tell how each of them ends.

Standard input says which tokenizer it is, a line of JSON, and then nothing: when it closes, the caller has no more use
for the workers, or is dead, and whoever is left is killed. Standard output: {"born": pids, ...} or {"error": ...,
"text": ...}, then {"ended": number, "code": ...} for each.
"""

import gc
import io
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from tokenriver.engines import worker
from tokenriver.engines._pipe import send
from tokenriver.tokenizer import is_foreign, load_tokenizer
from tokenriver.types import Tokenizer

Given = Mapping[str, Any]


def main(given: str) -> None:
    """Fork the workers that `given` (a JSON object) asks for; the last one serves the gate."""
    stdout = io.FileIO(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing but messages may go to the parent
    head = json.loads(given)
    ready = None if head["expected"] is None else _ready(head["expected"])
    asked = _line()
    if not asked:
        return
    head |= json.loads(asked)
    try:
        as_expected = ready is not None and (head["load"], head["encoder"]) == (head["expected"], "fast")
        tokenizer, notes = (ready, []) if as_expected else _loaded(head)
    except Exception as error:
        worker.report(stdout, error)
        return
    gc.freeze()
    worker.keep_memory()
    pids: list[int] = []
    for number in range(len(head["pipes"])):
        pid = os.fork()
        if not pid:
            stdout.close()
            _serve(head, number, tokenizer)
        pids.append(pid)
    for end in (end for pair in head["pipes"] for end in pair):
        os.close(end)
    encoder = None if tokenizer is None else tokenizer.encoder
    _send(stdout, {"born": pids, "encoder": encoder, "warnings": notes})
    _wait(stdout, pids)


def _line() -> bytes:
    """What standard input says; nothing if it closes before."""
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(0, 1 << 16)
        if not more:
            return b""
        line += more
    return line


def _ready(name: str) -> Tokenizer | None:
    """The tokenizer that will probably be asked for, made while there is nothing else to do, and its reference encoder
    with it, which every worker and the gate would else make for itself; None if anything is wrong with it: whoever asks
    for it is told then."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tokenizer = load_tokenizer(name)
            tokenizer.check([b"a"], *tokenizer.encode_batch([b"a"]))
    except Exception:
        return None
    return tokenizer


def _loaded(head: Given) -> tuple[Tokenizer | None, list[str]]:
    """The tokenizer, its native table at hand, and what its loading warned of. One of someone else's making may start
    threads, which a fork does not survive: each worker loads it for itself."""
    if is_foreign(head["load"]):
        return None, []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokenizer = _load(head)
    if tokenizer.encoder == "fast":
        tokenizer.encode_batch([b"a"])
    return tokenizer, [str(warning.message) for warning in caught]


def _load(head: Given) -> Tokenizer:
    return load_tokenizer(head["load"], search=[Path(folder) for folder in head["search"]], encoder=head["encoder"])


def _serve(head: Given, number: int, tokenizer: Tokenizer | None) -> NoReturn:
    """Be a worker."""
    code = 1
    try:
        read, write = head["pipes"][number]
        for other in (end for pair in head["pipes"] for end in pair if end not in (read, write)):
            os.close(other)
        os.close(0)  # the sign to kill is not for it
        with suppress(BrokenPipeError):
            load = partial(_load, head) if tokenizer is None else lambda: tokenizer
            worker.serve(io.BufferedReader(io.FileIO(read)), io.FileIO(write, "wb"), load, head["memory"])
            code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _wait(stdout: io.FileIO, pids: list[int]) -> None:
    alive = dict(zip(pids, range(len(pids)), strict=True))
    lock = threading.Lock()

    def listen() -> None:
        while os.read(0, 1):
            pass
        with lock:
            for pid in alive:
                os.kill(pid, signal.SIGKILL)

    threading.Thread(target=listen, daemon=True).start()
    while alive:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        with lock:  # a number is free for others once it was waited for
            pid, status = os.wait()
            number = alive.pop(pid)
        _send(stdout, {"ended": number, "code": os.waitstatus_to_exitcode(status)})


def _send(stdout: io.FileIO, head: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):
        send(stdout, head)
