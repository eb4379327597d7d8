"""A worker process of a build: a nursery forks it, it reads units from a pipe until it is told the end.

Messages in: {"work": ...}, then one {"job": ...} a unit, then {"end": true}. A stream's unit has its text as payload,
or says where it lies in the shared memory, which is the worker's until it has answered. Messages out, one a unit in the
same order: {"receipt": ...} once part and receipt are written, {"unreadable": ...}, or {"error": ..., "text": ...}.
A thread listens, so that a worker whose parent died stops at once and never writes beside the rerun. The gate's
process is a worker that gets {"self_check": true} and {"check": ...}, and answers each with {"checked": true}.
"""

import io
import mmap
import os
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from tokenriver import errors
from tokenriver.engines._pipe import Message, receive, send
from tokenriver.engines._sampling import Sample
from tokenriver.engines._unit import Done, Job, Outcome, Unreadable, Work, run_unit
from tokenriver.filtering import Filters, FilterSpec
from tokenriver.parts import Receipt
from tokenriver.streams import BLOCK
from tokenriver.types import Piece, SourceOptions, Tokenizer
from tokenriver.units import Lot

KEPT_BYTES = 31 << 20
Load = Callable[[], Tokenizer]


def serve(stdin: IO[bytes], stdout: io.FileIO, load: Load, memory: int | None) -> None:
    """Do what comes over the one pipe and answer over the other until the end is announced; `memory` is the file
    through which text comes."""
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(stdin, inbox), daemon=True).start()
    try:
        tokenizer = load()
    except Exception as error:
        report(stdout, error)
        return
    desk = _Desk(tokenizer, stdout, memory)
    while "end" not in (message := inbox.get())[0]:
        try:
            desk.take(*message)
        except Exception as error:
            report(stdout, error)
    # its memory takes a while to be freed, which nobody needs to wait for
    send(stdout, {"end": True})


def keep_memory() -> None:
    """glibc gives freed memory back to the system, which clears it each time anew, unless a block as large as this (its
    limit) was freed once; other libraries take no notice. Nothing is written to the block: it costs nothing."""
    bytes(KEPT_BYTES)


def _listen(stdin: IO[bytes], inbox: "queue.SimpleQueue[Message]") -> None:
    while (message := receive(stdin)) is not None:
        inbox.put(message)
        if "end" in message[0]:
            return
    os._exit(1)  # the parent is gone: nobody waits for what is half done


class _Desk:
    """What a worker has before it while it works."""

    def __init__(self, tokenizer: Tokenizer, stdout: io.FileIO, memory: int | None) -> None:
        self._tokenizer = tokenizer
        self._stdout = stdout
        self._memory = memory
        self._texts = memoryview(b"")
        self._work: Work | None = None

    def take(self, head: dict[str, Any], payload: bytes) -> None:
        """Do what one message asks for."""
        if "self_check" in head:
            self._tokenizer.self_check()
            send(self._stdout, {"checked": True})
        elif "check" in head:
            sample = _sample(head["check"], payload)
            self._tokenizer.check(sample.texts, sample.ids.astype(np.uint32), sample.lengths)
            send(self._stdout, {"checked": True})
        elif "work" in head:
            self._work = work_from_json(head["work"])
            if self._memory is not None and (size := os.fstat(self._memory).st_size):
                self._texts = memoryview(mmap.mmap(self._memory, size, prot=mmap.PROT_READ))
        elif self._work is not None:
            job = job_from_json(head["job"], self._text(head, payload))
            self._answer(run_unit(job, self._work, self._tokenizer))

    def _answer(self, outcome: Outcome) -> None:
        if isinstance(outcome, Unreadable):
            send(self._stdout, {"unreadable": outcome.errors, "key": outcome.key})
            return
        sample, columns = sample_to_json(outcome.sample)
        send(self._stdout, {"receipt": outcome.receipt.as_dict(), "sample": sample}, columns)

    def _text(self, head: dict[str, Any], payload: bytes) -> list[bytes | memoryview]:
        if "place" not in head:
            return [payload]
        start, size = head["place"]
        text = self._texts[start : start + size]
        return [text[i : i + BLOCK] for i in range(0, size, BLOCK)]


def report(stdout: io.FileIO, error: Exception) -> None:
    """Say what went wrong to the build, which raises it."""
    foreseen = isinstance(error, errors.RiverError)
    kind = type(error).__name__ if foreseen else "RiverError"
    text = str(error) if foreseen else f"worker: unexpected {type(error).__name__}: {error}; please report this"
    send(stdout, {"error": kind, "text": text})


def read_reply(head: dict[str, Any], payload: bytes) -> Outcome:
    """What became of a unit; raises the worker's error as its own kind."""
    raise_error(head)
    if "unreadable" in head:
        return Unreadable((head["key"][0], head["key"][1]), tuple((s, text) for s, text in head["unreadable"]))
    return Done(Receipt.from_json(head["receipt"]), _sample(head["sample"], payload))


def raise_error(head: dict[str, Any]) -> None:
    """Raise what `report` said, if this is what it said."""
    if "error" in head:
        kind = getattr(errors, head["error"], errors.RiverError)
        raise kind(head["text"])


def sample_to_json(sample: Sample) -> tuple[dict[str, Any], list[bytes]]:
    """A sample as a header and its payload."""
    head = {"sizes": [len(text) for text in sample.texts], "lengths": sample.lengths.tolist()}
    return head, [*sample.texts, sample.ids.astype("<u4").tobytes()]


def _sample(head: dict[str, Any], payload: bytes) -> Sample:
    texts, start = [], 0
    for size in head["sizes"]:
        texts.append(payload[start : start + size])
        start += size
    return Sample(texts, np.frombuffer(payload, "<u4", offset=start), np.array(head["lengths"], np.int64))


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
        "filters": [[spec.as_dict() for spec in work.filters.specs], work.filters.max_document_tokens],
    }


def work_from_json(data: dict[str, Any]) -> Work:
    text_field, separator, keep, max_row = data["options"]
    options = SourceOptions(text_field, None if separator is None else bytes.fromhex(separator), keep, max_row)
    specs, max_document_tokens = data["filters"]
    filters = Filters(tuple(map(FilterSpec.from_dict, specs)), max_document_tokens)
    return Work(**{**data, "folder": Path(data["folder"]), "options": options, "filters": filters})


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


def job_from_json(data: dict[str, Any], text: Sequence[bytes | memoryview]) -> Job:
    key = (data["key"][0], data["key"][1])
    pieces = tuple(Piece(source, Path(path), start, stop) for source, path, start, stop in data["pieces"])
    blocks = tuple((first, last) for first, last in data["blocks"])
    lot = Lot(key[0], data["kind"], pieces, tuple(data["compressions"]), blocks, data["stream"], 0, data["tag"])
    return Job(key, lot, data["sample_bytes"], text if data["stream"] else None, data["offset"], data["prefix"])
