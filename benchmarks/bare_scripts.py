"""What a careful person would write without tokenriver: JSON lines under zstd -> GPT-2 ids in one uint16 file.

    python bare_scripts.py {one,pipes,farm,threads} TABLE OUT IN.jsonl.zst...

All four take the same steps: read, decompress, orjson, encode in batches, 50256 after each text, uint16, write in
order, fsync. No check of any kind, no commit, no index, no resume, no hash: they are what the steps alone cost. TABLE
is a rank file (r50k_base.tiktoken). Texts are joined by a marker that becomes the end of text, so a batch is one call
of the encoder; a text that holds the marker would come out wrong, which a script of one afternoon can live with.

  one      one process, one thread: this much is linear
  pipes    two processes over a pipe: decompress and parse | encode and write
  farm     one process decompresses and writes, two work: parse and encode, over pipes
  threads  one process: a thread decompresses, two parse and encode (encode_batch, which lets go of the GIL)

Of the CPU time of `one` on 200 MB of text, the encoder takes 54 %, JSON and joining 19 %, decompression 15 %, start
and rank table 8 %, writing 2 %. `farm` needs a third more CPU than `one` for its pipes and its starts, but runs on two
cores; `pipes` is bounded by its encoding stage. `threads` needs encode_batch, whose result brings a large import.

Start-up counts, so each process imports what it needs and no more: imports stand where they are used.
"""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import IO

END = 50256
MARKER = "\U0010ffff\U0010fffe".encode()
MARKER_ID = 60000
BLOCK = 2 << 20
WORKERS = 2

Buffer = bytes | memoryview
Encode = Callable[[bytes], Buffer]


def main(mode: str, table: str, out: str, *paths: str) -> None:
    if mode == "worker":
        return work(table)
    if mode == "encoder":
        return encode_and_write(table, out)
    return {"one": one, "pipes": pipes, "farm": farm, "threads": threads}[mode](table, out, paths)


def blocks(paths: Sequence[str]) -> Iterator[bytes]:
    """Decompressed blocks of whole lines."""
    import zstandard

    for path in paths:
        with open(path, "rb") as file:
            stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            rest = b""
            while block := stream.read(BLOCK):
                head, newline, tail = block.rpartition(b"\n")
                if newline:
                    yield rest + head
                    rest = tail
                else:
                    rest += tail
            if rest:
                yield rest


def parsed(block: bytes) -> list[bytes]:
    import orjson

    return [orjson.loads(line)["text"].encode() for line in block.split(b"\n")]


def joined(block: bytes) -> bytes:
    return MARKER.join([*parsed(block), b""])


def encoder(table: str) -> Encode:
    import numpy as np
    from gigatoken.gigatoken_rs import BPETokenizer

    native = BPETokenizer.from_tiktoken(table, "gpt2", {MARKER.decode(): MARKER_ID})

    def encode(texts: bytes) -> Buffer:
        ids = native.encode(texts).astype(np.uint16)
        ids[ids == MARKER_ID] = END
        return ids.data

    return encode


def one(table: str, out: str, paths: Sequence[str]) -> None:
    encode = encoder(table)
    with open(out, "wb", buffering=0) as file:
        for block in blocks(paths):
            file.write(encode(joined(block)))
        os.fsync(file)


def send(pipe: IO[bytes], data: Buffer) -> None:
    data = memoryview(data)
    pipe.write(data.nbytes.to_bytes(8, "little"))
    pipe.write(data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    return pipe.read(int.from_bytes(pipe.read(8), "little"))


def pipes(table: str, out: str, paths: Sequence[str]) -> None:
    child = subprocess.Popen([sys.executable, __file__, "encoder", table, out], stdin=subprocess.PIPE)
    assert child.stdin
    for block in blocks(paths):
        send(child.stdin, joined(block))
    child.stdin.close()
    if child.wait():
        raise SystemExit("the encoding process failed")


def encode_and_write(table: str, out: str) -> None:
    encode = encoder(table)
    with open(out, "wb", buffering=0) as file:
        while texts := receive(sys.stdin.buffer):
            file.write(encode(texts))
        os.fsync(file)


def work(table: str) -> None:
    encode = encoder(table)
    while block := receive(sys.stdin.buffer):
        send(sys.stdout.buffer, encode(joined(block)))


class InOrder:
    """Blocks go to whoever is free; what comes back is written in the blocks' order."""

    def __init__(self) -> None:
        self.waiting: queue.Queue[tuple[int, bytes] | None] = queue.Queue(WORKERS)
        self.done: dict[int, Buffer | None] = {}
        self.changed = threading.Condition()

    def feed(self, paths: Sequence[str]) -> None:
        count = 0
        for block in blocks(paths):
            self.waiting.put((count, block))
            count += 1
        for _ in range(WORKERS):
            self.waiting.put(None)
        self.put(count, None)

    def put(self, number: int, ids: Buffer | None) -> None:
        with self.changed:
            self.done[number] = ids
            self.changed.notify()

    def serve(self, encode: Encode) -> None:
        while (item := self.waiting.get()) is not None:
            self.put(item[0], encode(item[1]))

    def write(self, out: str) -> None:
        number = 0
        with open(out, "wb", buffering=0) as file:
            while (ids := self.take(number)) is not None:
                file.write(ids)
                number += 1
            os.fsync(file)

    def take(self, number: int) -> Buffer | None:
        with self.changed:
            self.changed.wait_for(lambda: number in self.done)
            return self.done.pop(number)

    def run(self, encoders: Sequence[Encode], out: str, paths: Sequence[str]) -> None:
        for encode in encoders:
            threading.Thread(target=self.serve, args=(encode,), daemon=True).start()
        threading.Thread(target=self.feed, args=(paths,), daemon=True).start()
        self.write(out)


def farm(table: str, out: str, paths: Sequence[str]) -> None:
    command = [sys.executable, __file__, "worker", table, out]
    children = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(WORKERS)]

    def through(child: "subprocess.Popen[bytes]") -> Encode:
        assert child.stdin
        assert child.stdout
        to, back = child.stdin, child.stdout

        def encode(block: bytes) -> Buffer:
            send(to, block)
            return receive(back)

        return encode

    InOrder().run([through(child) for child in children], out, paths)
    for child in children:
        child.communicate()
        if child.returncode:
            raise SystemExit("a working process failed")


def threads(table: str, out: str, paths: Sequence[str]) -> None:
    import numpy as np
    from gigatoken.gigatoken_rs import BPETokenizer

    def encoder_of_a_thread() -> Encode:
        native = BPETokenizer.from_tiktoken(table, "gpt2", None)

        def encode(block: bytes) -> Buffer:
            flat = native.encode_batch(parsed(block), parallel=False).layout
            ids = np.asarray(flat.content.data).astype(np.uint16)
            return np.insert(ids, np.asarray(flat.offsets.data)[1:], END).data

        return encode

    InOrder().run([encoder_of_a_thread() for _ in range(WORKERS)], out, paths)


if __name__ == "__main__":
    main(*sys.argv[1:])
