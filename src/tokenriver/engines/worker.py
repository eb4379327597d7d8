"""A worker process of a build: `tokenriver` starts it, it reads units from standard input until it is told the end.

Messages in: {"load": tokenizer}, then {"work": ...}, then one {"job": ...} a unit with a stream's text as payload, then
{"end": true}. Messages out, one a unit in the same order: {"receipt": ...} once part and receipt are on disk,
{"unreadable": ...}, or {"error": ..., "text": ...}. Committing (mostly waiting for the disk) and answering happen in
one thread beside the next unit's encoding; a third listens, so that a worker whose parent died stops at once and never
writes beside the rerun.
"""

import io
import os
import queue
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import numpy as np

from tokenriver import errors
from tokenriver.engines._pipe import Message, receive, send
from tokenriver.engines._unit import Done, Finished, Job, Outcome, Sample, Unreadable, Work, run_unit
from tokenriver.parts import Receipt
from tokenriver.tokenizer import load_tokenizer
from tokenriver.types import Piece, SourceOptions, Tokenizer
from tokenriver.units import Lot

BOOT = (
    "import os, sys; os.environ['OPENBLAS_NUM_THREADS'] = '1'; sys.path[:] = sys.argv[1:]; "
    "from tokenriver.engines.worker import main; main()"
)
"""Run with `python -I -c`: the same search path as the parent, its script not imported again. A worker multiplies no
matrices, and starting threads for it costs 0.1 s."""


def main() -> None:
    """Serve units from standard input to standard output until the end is announced."""
    stdin, stdout = sys.stdin.buffer, io.FileIO(1, "wb", closefd=False)
    sys.stdout = sys.stderr  # nothing but messages may go to the parent
    try:
        _serve(stdin, stdout)
    except BrokenPipeError:
        sys.exit(1)


def _listen(stdin: IO[bytes], inbox: "queue.SimpleQueue[Message]") -> None:
    while (message := receive(stdin)) is not None:
        inbox.put(message)
        if "end" in message[0]:
            return
    os._exit(1)  # the parent is gone: nobody waits for what is half done


def _serve(stdin: IO[bytes], stdout: io.FileIO) -> None:
    tokenizer: Tokenizer | None = None
    work: Work | None = None
    pending: Future[None] | None = None
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(stdin, inbox), daemon=True).start()
    with ThreadPoolExecutor(1) as committer:
        while "end" not in (message := inbox.get())[0]:
            head, payload = message
            try:
                if "load" in head:
                    tokenizer = load_tokenizer(head["load"], search=head["search"], encoder=head["encoder"])
                elif "work" in head:
                    work = work_from_json(head["work"])
                elif work is not None and tokenizer is not None:
                    unit = run_unit(job_from_json(head["job"], payload), work, tokenizer)
                    if pending is not None:
                        pending.result()
                    pending = committer.submit(_finish, unit, stdout)
            except Exception as error:
                committer.submit(_report, stdout, error)


def _finish(unit: Finished | Unreadable, stdout: io.FileIO) -> None:
    try:
        outcome = unit if isinstance(unit, Unreadable) else unit.commit()
    except Exception as error:
        _report(stdout, error)
        return
    if isinstance(outcome, Unreadable):
        send(stdout, {"unreadable": outcome.errors, "key": outcome.key})
        return
    sample = outcome.sample
    head = {
        "receipt": outcome.receipt.as_dict(),
        "sizes": [len(text) for text in sample.texts],
        "lengths": sample.lengths.tolist(),
    }
    send(stdout, head, [*sample.texts, sample.ids.astype("<u4").tobytes()])


def _report(stdout: io.FileIO, error: Exception) -> None:
    foreseen = isinstance(error, errors.RiverError)
    kind = type(error).__name__ if foreseen else "RiverError"
    text = str(error) if foreseen else f"worker: unexpected {type(error).__name__}: {error}; please report this"
    send(stdout, {"error": kind, "text": text})


def read_reply(head: dict[str, Any], payload: bytes) -> Outcome:
    """What became of a unit; raises the worker's error as its own kind."""
    if "error" in head:
        kind = getattr(errors, head["error"], errors.RiverError)
        raise kind(head["text"])
    if "unreadable" in head:
        return Unreadable((head["key"][0], head["key"][1]), tuple((s, text) for s, text in head["unreadable"]))
    texts, start = [], 0
    for size in head["sizes"]:
        texts.append(payload[start : start + size])
        start += size
    ids = np.frombuffer(payload, "<u4", offset=start)
    return Done(Receipt.from_json(head["receipt"]), Sample(texts, ids, np.array(head["lengths"], np.int64)))


def work_to_json(work: Work) -> dict[str, Any]:
    options = work.options
    separator = None if options.separator is None else options.separator.hex()
    return {
        "folder": str(work.folder),
        "dtype": work.dtype,
        "before": work.before,
        "after": work.after,
        "val_fraction": work.val_fraction,
        "unit_bytes": work.unit_bytes,
        "options": [options.text_field, separator, options.keep_separator, options.max_row_bytes],
    }


def work_from_json(data: dict[str, Any]) -> Work:
    text_field, separator, keep, max_row = data["options"]
    options = SourceOptions(text_field, None if separator is None else bytes.fromhex(separator), keep, max_row)
    return Work(**{**data, "folder": Path(data["folder"]), "options": options})


def job_to_json(job: Job) -> dict[str, Any]:
    lot = job.lot
    return {
        "key": job.key,
        "kind": lot.kind,
        "tag": lot.tag,
        "pieces": [[p.source, str(p.path), p.start, p.stop] for p in lot.pieces],
        "compressions": lot.compressions,
        "blocks": lot.blocks,
        "sample_bytes": job.sample_bytes,
        "stream": job.data is not None,
        "offset": job.offset,
        "prefix": job.prefix,
    }


def job_from_json(data: dict[str, Any], payload: bytes) -> Job:
    key = (data["key"][0], data["key"][1])
    pieces = tuple(Piece(source, Path(path), start, stop) for source, path, start, stop in data["pieces"])
    blocks = tuple((first, last) for first, last in data["blocks"])
    lot = Lot(key[0], data["kind"], pieces, tuple(data["compressions"]), blocks, data["stream"], 0, data["tag"])
    return Job(key, lot, data["sample_bytes"], [payload] if data["stream"] else None, data["offset"], data["prefix"])


if __name__ == "__main__":
    main()
