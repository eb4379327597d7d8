"""Downloads of many files from a server on loopback, with digests, checks and commits, beside a plain client.

python -m benchmarks.downloads serve COUNT BYTES       a server of random files; its port on the first line
python -m benchmarks.downloads ours PORT COUNT BYTES FOLDER
python -m benchmarks.downloads plain PORT COUNT BYTES FOLDER
python -m benchmarks.downloads synced PORT COUNT BYTES FOLDER

The plain client is what a script of one afternoon does: aiohttp, eight at a time, each answer written as it comes; no
digest, no fsync, no check of any kind. Ours hashes, syncs and renames each file. `synced` is the plain client with a
sha256 and an fsync of each file, to tell what those alone cost. All are timed from the first request to the last byte
on its way to the disk, and the server's work is in all.
"""

import asyncio
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks import measure
from benchmarks.build import Place
from benchmarks.measure import MB, Figure, at_least, python
from tokenriver import registry
from tokenriver.downloading import THREADS, fetch
from tokenriver.wire import Access, Download

CASES = {"many small": (400, 100_000), "some large": (16, 32 * MB)}
TARGET = 0.7


def run(place: Place) -> list[Figure]:
    """Megabytes a second, and ours as a share of the plain client's, in files of two sizes."""
    figures = []
    for name, (count, size) in CASES.items():
        rates = _rates(place, count, size)
        shown = f"{count} files of {size / MB:g} MB"
        figures += [Figure(f"{shown}: {who}", f"{rate:.0f} MB/s", data=rate) for who, rate in rates.items()]
        figures.append(at_least(f"{name}: of the plain client", rates["ours"] / rates["plain"], TARGET, data=rates))
    return figures


def _rates(place: Place, count: int, size: int) -> dict[str, float]:
    with subprocess.Popen(
        python("-m", "benchmarks.downloads", "serve", count, size), stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        jobs: dict[str, Callable[[], float]] = {
            who: partial(_once, place, who, port, count, size) for who in ("ours", "plain", "synced")
        }
        measure.alternate(jobs, 1)
        seconds = measure.alternate(jobs, place.rounds)
        server.terminate()
    return {who: count * size / MB / measure.median(runs) for who, runs in seconds.items()}


def _once(place: Place, who: str, port: str, count: int, size: int) -> float:
    folder = place.work / "downloads"
    measure.drop(folder)
    found = measure.answer(python("-m", "benchmarks.downloads", who, port, count, size, folder))
    sizes = {path.stat().st_size for path in folder.iterdir()}
    assert (len(list(folder.iterdir())), sizes) == (count, {size})
    measure.drop(folder)
    return float(found["seconds"])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    body = b""

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(self.body)


def serve(count: int, size: int) -> None:
    """The same random bytes under every name, until the process is ended."""
    handler = type("Handler", (_Handler,), {"body": random.Random(1).randbytes(size)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    print(server.server_port, flush=True)
    server.serve_forever()


def ours(port: int, count: int, size: int, folder: Path) -> dict[str, Any]:
    """Fetch with the digest of every file."""
    sha256 = hashlib.sha256(random.Random(1).randbytes(size)).hexdigest()
    wanted = [
        Download(f"http://127.0.0.1:{port}/{n}", folder / f"{n:04}.bin", size, sha256=sha256) for n in range(count)
    ]
    registry.load("remotes", "http")  # as aiohttp is imported before the other clock starts
    begin = time.perf_counter()
    fetch(wanted, access=Access(), sleep=time.sleep)
    return {"seconds": time.perf_counter() - begin}


def plain(port: int, count: int, size: int, folder: Path) -> dict[str, Any]:
    """What aiohttp alone does."""
    return _by_aiohttp(port, count, folder, synced=False)


def synced(port: int, count: int, size: int, folder: Path) -> dict[str, Any]:
    """The same with a digest and an fsync of each file, one after the other."""
    return _by_aiohttp(port, count, folder, synced=True)


def _by_aiohttp(port: int, count: int, folder: Path, *, synced: bool) -> dict[str, Any]:
    folder.mkdir()

    async def one(session: aiohttp.ClientSession, turn: asyncio.Semaphore, n: int) -> None:
        async with turn, session.get(f"http://127.0.0.1:{port}/{n}") as response:
            digest = hashlib.sha256()
            with (folder / f"{n:04}.bin").open("wb") as file:
                async for data in response.content.iter_chunked(1 << 20):
                    file.write(data)
                    if synced:
                        digest.update(data)
                if synced:
                    file.flush()
                    os.fsync(file.fileno())

    async def everything() -> None:
        turn = asyncio.Semaphore(THREADS)
        async with aiohttp.ClientSession() as session:
            await asyncio.gather(*(one(session, turn, n) for n in range(count)))

    begin = time.perf_counter()
    asyncio.run(everything())
    return {"seconds": time.perf_counter() - begin}


if __name__ == "__main__":
    mode, first, second, *rest = sys.argv[1:]
    if mode == "serve":
        serve(int(first), int(second))
    else:
        client = {"ours": ours, "plain": plain, "synced": synced}[mode]
        print(json.dumps(client(int(first), int(second), int(rest[0]), Path(rest[1]))))
