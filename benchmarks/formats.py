"""Every format beside our own: the loader over the same ids, 10,000 shards opened, and conversions beside cp.

The ids are random and their documents lognormal with a mean of 262 ids, as in a web corpus: what they are does not
matter to any of it.

    python -m benchmarks.formats load FOLDER SECONDS ROUNDS    ids a second of each corpus below the folder
    python -m benchmarks.formats open PATH                     seconds and memory of opening a corpus
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

import tokenriver
from benchmarks import measure
from benchmarks.build import Place
from benchmarks.load import Pair, loader, rate
from benchmarks.measure import MB, Figure, at_least, at_most, python
from tokenriver import registry
from tokenriver.formats._bin import llmc_header
from tokenriver.formats._docindex import index_header
from tokenriver.manifest import Manifest, ShardInfo, write_manifest

LOAD_IDS, CONVERT_IDS = 50_000_000, 500_000_000
MEAN, SIGMA = 262, 1.0
SEQ_LEN = 1024
SHARDS, DOCUMENTS = 10_000, 10**8
CHUNKS = (1024, 8192, 8_000_000)
MDS, SAMPLES = "mds in samples of 2,048", 2048  # as its own trainers want them; "mds" has a sample a document
MAPPED = ("llmc", "nanogpt", "minimind", "megatron", MDS, "litdata", "nanotron", "olmo", "safetensors", "arrow")
SHARDED = "native in shards"
SEVERAL = (MDS, "mds", "litdata", "arrow")  # written in several shards, so compared with native ones
CONVERTED = ("megatron", "hdf5", "mds")


def run(place: Place) -> list[Figure]:
    """Reading, opening, converting."""
    return [*_reading(place), *_opening(place), *_converting(place)]


# --------------------------------------------------------------------------------------------------- reading


def _reading(place: Place) -> list[Figure]:
    folder = place.work / "formats"
    _make_formats(folder)
    measure.warm([path for path in sorted(folder.rglob("*")) if path.is_file()])
    rates = measure.answer(python("-m", "benchmarks.formats", "load", folder, 0.2, 2 * place.rounds + 1))
    figures = []
    for name, speed in rates.items():
        base = SHARDED if name in SEVERAL else "native"
        native = rates[base]
        label = f"T={SEQ_LEN}, {name}: {speed / 1e6:,.0f} M ids/s, over {base}"
        if name in MAPPED:
            figures.append(at_least(label, speed / native, 0.9))
        elif name.startswith("hdf5"):
            target = 1 / 3 if "document" not in name else 0.0
            figures.append(
                at_least(label, speed / native, target) if target else Figure(label, f"{speed / native:.2f}")
            )
        else:
            figures.append(Figure(label, f"{speed / native:.3f}"))
    return figures


def _make_formats(folder: Path) -> None:
    """The same ids in each format that is written, and in HDF5 files of several chunk sizes."""
    base = folder / "native"
    if not (base / "manifest.json").exists():
        measure.drop(folder)
        make_minimind(folder.parent / "source", LOAD_IDS)
        tokenriver.convert(folder.parent / "source", base, format="native")
        measure.drop(folder.parent / "source")
    tokenriver.convert(base, folder / SHARDED, format="native", shard_tokens=1 << 24)
    for name in registry.names("formats"):
        if name not in ("native", "hdf5") and registry.load("formats", name).DTYPES:
            tokenriver.convert(base, folder / name, format=name)
    tokenriver.convert(base, folder / MDS, format="mds", layout="fixed", sample_tokens=SAMPLES)
    for chunk in CHUNKS:
        _hdf5(folder / f"hdf5 in chunks of {chunk:,}", base, [1 << 20] * (LOAD_IDS >> 20), chunk)
    _hdf5(folder / "hdf5 written document by document", base, document_lengths(LOAD_IDS).tolist(), 8192)


def _hdf5(folder: Path, base: Path, pieces: list[int], chunk: int) -> None:
    """One dataset `tokens`, extended by each piece in turn; by many small ones it is what the old writers left."""
    if folder.exists():
        return
    folder.mkdir()
    corpus, at = tokenriver.open_corpus(base), 0
    with h5py.File(folder / "train.h5", "w") as file:
        tokens = file.create_dataset("tokens", (0,), np.uint16, maxshape=(None,), chunks=(chunk,))
        for size in [*pieces, corpus.num_tokens - sum(pieces)]:
            tokens.resize((at + size,))
            tokens[at:] = corpus.read(at, at + size)
            at += size


def document_lengths(ids: int) -> NDArray[np.int64]:
    """Lengths of documents that sum to `ids`."""
    rng = np.random.default_rng(0)
    drawn = rng.lognormal(np.log(MEAN) - SIGMA**2 / 2, SIGMA, 2 * ids // MEAN).astype(np.int64) + 1
    kept = drawn[np.cumsum(drawn) < ids]
    return np.append(kept, ids - kept.sum())


def make_minimind(folder: Path, ids: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    with (folder / "tokens.bin").open("wb") as file:
        for at in range(0, ids, 1 << 22):
            rng.integers(0, 50257, min(1 << 22, ids - at), dtype=np.uint16).tofile(file)
    np.save(folder / "doc_lengths.npy", document_lengths(ids))


def load(folder: str, seconds: float, rounds: int) -> dict[str, float]:
    """Median ids a second of each corpus below a folder, in alternating windows of time."""
    takes: dict[str, Callable[[], Pair]] = {
        path.name: loader(path, SEQ_LEN, 0) for path in sorted(Path(folder).iterdir())
    }
    seen = {name: take()[0].tolist() for name, take in takes.items()}
    assert all(ids == seen["native"] for ids in seen.values()), "every format serves the same batches"
    jobs = {name: partial(rate, take, SEQ_LEN, seconds) for name, take in takes.items()}
    measure.alternate(jobs, 1)
    return {name: measure.median(rates) for name, rates in measure.alternate(jobs, rounds).items()}


# --------------------------------------------------------------------------------------------------- opening


def _opening(place: Place) -> list[Figure]:
    folder = place.work / "many-shards"
    _many(folder)
    runs = [measure.answer(python("-m", "benchmarks.formats", "open", folder)) for _ in range(place.rounds)]
    bare = [measure.answer(python("-m", "benchmarks.formats", "open", folder / "*.bin")) for _ in range(place.rounds)]
    measure.drop(folder)
    what = "10,000 shards, 10^8 documents: open_corpus and one document"
    return [
        at_most(f"{what}", measure.median([run["seconds"] for run in runs]), 1, unit=" s", data=runs),
        at_most(f"{what}: memory over the import", max(run["grown"] for run in runs) / MB, 200, unit=" MB"),
        Figure(
            "the same without the manifest (every header read)", f"{measure.median([r['seconds'] for r in bare]):.2f} s"
        ),
    ]


def _many(folder: Path) -> None:
    """Native shards that take next to no room: ids and origins are holes."""
    if (folder / "manifest.json").exists():
        return
    measure.drop(folder)
    folder.mkdir(parents=True)
    count, per = DOCUMENTS // SHARDS, 100
    ends = np.arange(1, count + 1, dtype="<i8") * per
    shards = []
    for number in range(SHARDS):
        path = folder / f"tokens_train_{number:06d}.bin"
        with path.open("wb") as file:
            file.write(llmc_header(count * per, "uint16"))
            file.truncate(1024 + 2 * count * per)
        with path.with_suffix(".docs").open("wb") as file:
            file.write(index_header(count) + ends.tobytes())
            file.truncate(24 + 20 * count)
        sizes = 1024 + 2 * count * per, 24 + 20 * count
        shards.append(ShardInfo(path.name, "train", count * per, count, sizes[0], "0" * 64, sizes[1], "0" * 64))
    kept: dict[str, dict[str, object]] = {"ids": {"kept": {}}, "documents": {"kept": {}}, "bad_rows": {}}
    write_manifest(folder, Manifest("native", None, "none", "uint16", {}, (), tuple(shards), kept))


def opening(path: str) -> dict[str, float]:
    """Seconds of opening a corpus and reading a document in its middle, and the memory that took."""
    open_corpus = tokenriver.open_corpus
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    corpus = open_corpus(path)
    documents = corpus.num_documents
    assert documents == DOCUMENTS
    assert len(corpus.document(documents // 2)) == 100
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "grown": 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)}


# ------------------------------------------------------------------------------------------------ converting


def _converting(place: Place) -> list[Figure]:
    source = place.work / "convert-source"
    if not (source / "manifest.json").exists():
        raw = place.work / "convert-raw"
        make_minimind(raw, CONVERT_IDS)
        measure.drop(source)
        tokenriver.convert(raw, source, format="native")
        measure.drop(raw)
    shards = sorted(source.glob("*.bin"))
    measure.warm(shards)
    jobs: dict[str, Callable[[], float]] = {"cp and sha256": partial(_copy, place, shards)}
    jobs |= {name: partial(_convert, place, source, name) for name in CONVERTED}
    runs = measure.alternate(jobs, max(1, place.rounds // 2))
    base = measure.median(runs.pop("cp and sha256"))
    size = 2 * CONVERT_IDS / MB
    figures = [Figure(f"{size:,.0f} MB of ids: cp and sha256sum", f"{size / base:,.0f} MB/s")]
    for name, seconds in runs.items():
        taken = measure.median(seconds)
        label = f"native -> {name}: {size / taken:,.0f} MB/s, over cp and sha256sum"
        figures.append(at_least(label, base / taken, 0.5, data=seconds))
    return figures


def _copy(place: Place, shards: list[Path]) -> float:
    out = _fresh(place)
    out.mkdir()
    begin = time.perf_counter()
    measure.call(["cp", *map(str, shards), str(out)])
    measure.call(["sha256sum", *map(str, sorted(out.iterdir()))])
    return time.perf_counter() - begin


def _convert(place: Place, source: Path, name: str) -> float:
    out = _fresh(place)
    return measure.call(python("-m", "tokenriver", "convert", source, "-o", out, "--format", name)).seconds


def _fresh(place: Place) -> Path:
    out = place.work / "converted"
    measure.drop(out)
    os.sync()
    return out


if __name__ == "__main__":
    _what, _path, *_rest = sys.argv[1:]
    print(json.dumps(opening(_path) if _what == "open" else load(_path, float(_rest[0]), int(_rest[1]))))
