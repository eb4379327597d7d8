"""Run as a program: damage a file of ids many times over and open it each time, with 4 GiB of memory.

    id_mutations.py FORMAT FILE COUNT SEED

Whatever is not a FormatError, or ids that can be read, ends the program with a traceback, or a signal.
"""

import random
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from tokenriver import registry
from tokenriver.errors import FormatError

MEMORY = 4 << 30


def flip(data: bytearray, at: int, draw: random.Random) -> None:
    data[at] ^= 1 << draw.randrange(8)


def replace(data: bytearray, at: int, draw: random.Random) -> None:
    data[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))


def number(data: bytearray, at: int, draw: random.Random) -> None:
    value = draw.choice((0, 2**63 - 1, 2**64 - 1, 1 << draw.randrange(64)))
    data[at : at + 8] = value.to_bytes(8, "little")


def copy(data: bytearray, at: int, draw: random.Random) -> None:
    source, size = draw.randrange(len(data)), draw.randrange(1, 64)
    data[at : at + size] = data[source : source + size]


def cut(data: bytearray, at: int, draw: random.Random) -> None:
    del data[at : draw.choice((at + 1, at + 8, len(data)))]


CHANGES: tuple[Callable[[bytearray, int, random.Random], None], ...] = (flip, flip, replace, number, copy, cut)


def main(name: str, file: str, count: int, seed: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    module, good = registry.load("formats", name), Path(file).read_bytes()
    path = Path(f"{file}-{seed}{module.SUFFIX}")
    refused = 0
    for i in range(count):
        draw, data = random.Random(f"{seed}/{i}"), bytearray(good)
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            if data:
                # metadata stand at either end
                at = draw.choice((draw.randrange(len(data)), -draw.randrange(1, min(len(data), 800) + 1))) % len(data)
                draw.choice(CHANGES)(data, at, draw)
        path.write_bytes(data)
        try:
            module.sniff(path)
            reader = module.open_reader(path)
            ends, ids = reader.doc_ends, reader.read(0, reader.num_tokens)
        except FormatError:
            refused += 1
            continue
        assert len(ids) == reader.num_tokens > 0, i
        assert ends is None or (ends[-1] == len(ids) and ends[0] >= 0 and (ends[1:] >= ends[:-1]).all()), i
    sys.stdout.write(f"{refused} of {count} refused\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
