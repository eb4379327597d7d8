"""Watch the main job on real text found on this machine: build, verify, kill, resume, serve to 1, 2 and 3 ranks."""

import shlex
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from tokenriver.commands import _demo_crash, _demo_proofs, _demo_text, _options, _output
from tokenriver.commands._demo_proofs import Stage
from tokenriver.errors import InputError
from tokenriver.files import list_folder, make_folder, write_atomic

MARK = ".tokenriver-demo"

Folder = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where everything is written.")]
Megabytes = Annotated[int, typer.Option("--megabytes", metavar="N", min=2, max=1000, help="Text to take.")]
Workers = Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Worker processes of the builds.")]


def run(
    out: Folder = Path("demo"), megabytes: Megabytes = 32, workers: Workers = 2, json: _options.Json = False
) -> None:
    """Watch the main job on real text found on this machine: build, verify, kill, resume, serve to 1, 2 and 3 ranks.

    Needs no network. Every figure is measured in this run. Exit code 1 if a
    proof fails.

    Example:  tokenriver demo
    """
    begin = time.perf_counter()
    with redirect_stdout(sys.stderr) if json else nullcontext():
        _make_place(out)
        stage = Stage(out / "text.jsonl.zst", out / "corpus", out / "again", workers, {})
        _all_steps(stage, megabytes * 1_000_000)
        failed = [name for name, values in stage.found.items() if not values.get("passed", True)]
        seconds = time.perf_counter() - begin
        _close(stage, failed, seconds)
    if json:
        _output.emit_json({"seconds": seconds, "failed": failed, **stage.found})
    if failed:
        raise typer.Exit(1)


def _make_place(out: Path) -> None:
    """An empty demo folder: a new one, or one of an earlier demo; anything else is left alone."""
    if out.exists() and not (out / MARK).exists() and (not out.is_dir() or list_folder(out)):
        raise InputError(
            f"{out}: got something that is no demo of ours, expected a new folder; give another with --out"
        )
    make_folder(out)
    write_atomic(out / MARK, b"tokenriver demo writes here and clears what it wrote\n")


def _all_steps(stage: Stage, limit: int) -> None:
    steps: dict[str, tuple[str, Callable[[Stage], dict[str, Any]]]] = {
        "text": ("real text from this machine", lambda s: _take_text(s, limit)),
        "build": ("text to token shards", _demo_proofs.build),
        "verify": ("checksums, and every document decoded and compared with its source", _demo_proofs.verify),
        "batch": ("what a model would see", _demo_proofs.batch),
        "crash": ("a second build, killed in the middle and run again", _demo_proofs.crash),
        "ranks": ("one epoch by 1, 2 and 3 ranks, and by all three in turn", _demo_proofs.ranks),
        "rates": ("rates beside the ceilings of this machine", _demo_proofs.rates),
    }
    for number, (name, (title, step)) in enumerate(steps.items(), 1):
        _output.heading(f"{number}. {title}")
        stage.found[name] = step(stage)
        print()


def _take_text(stage: Stage, limit: int) -> dict[str, Any]:
    for corpus in (stage.corpus, stage.again):
        _demo_crash.clear(corpus)
    text = _demo_text.write_text(stage.text, limit)
    print(f"  {_output.size(text.text_bytes)} of {', '.join(_demo_text.ENDS)}:")
    for root, files in text.files.items():
        print(f"    {files:,} files of {root}")
    print(f"  written as JSON lines to {text.path}, {_output.size(text.stored_bytes)}")
    return {"files": text.files, "text_bytes": text.text_bytes, "stored_bytes": text.stored_bytes}


def _close(stage: Stage, failed: list[str], seconds: float) -> None:
    if failed:
        _output.heading(f"FAILED in {seconds:.0f} s: {', '.join(failed)}")
        return
    _output.heading(f"All of it held, in {seconds:.0f} s. Go on with")
    corpus = shlex.quote(str(stage.corpus))
    for line in (
        f"tokenriver info {corpus} --for llmc --batch-size 32 --seq-len 1024",
        f"tokenriver batches {corpus} --seq-len 1024 --batch-size 8 --steps 3",
        f"tokenriver bench {corpus}",
    ):
        print(f"  {line}")
