"""Comparisons of two answers -> pairs: JSON lines of prompt, chosen and rejected, or a corpus of encoded pairs.

In the corpus documents 2i and 2i + 1 are the chosen and the rejected row of sample i, each the whole conversation with
its answer alone in the loss mask; a loader of windows refuses it, `PairLoader` reads it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenriver import registry
from tokenriver.chat import load_chat, template_facts
from tokenriver.digests import sha256_file
from tokenriver.errors import InputError
from tokenriver.examplefile import (
    ExampleReport,
    Tally,
    dump,
    each_record,
    find_records,
    side_file,
    val_file,
    write_rows,
    write_side,
)
from tokenriver.hashing import held_out
from tokenriver.inputs import InputFile
from tokenriver.limits import BadRows
from tokenriver.manifest import Manifest
from tokenriver.mersenne import Dice
from tokenriver.paircorpus import ROWS, PairRow, write_pairs
from tokenriver.reading import Progress, refuse_input
from tokenriver.tokenizer import load_tokenizer
from tokenriver.types import Json, Tokenizer

LIKE = "pile-hdf5"
KIND = "preference"


def preference(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    dataset: str = "auto",
    max_per_dataset: int | None = None,
    like: str | None = None,
    keep_differing: bool = False,
    turns: bool = False,
    shuffle: int | None = None,
    val_fraction: float = 0.0,
    tokenizer: str | Path | Tokenizer = "gpt2",
    template: str = "plain",
    template_options: Json | None = None,
    train: str = "last",
    include: Sequence[str] = (),
    on_bad: str = "skip",
    max_bad: float = 0.01,
    progress: Progress | None = None,
) -> ExampleReport:
    """Write the pairs of `inputs` (JSON lines, JSON arrays, Parquet) to `out`: `{"prompt", "chosen", "rejected"}` a
    line if its name ends in .jsonl, else a corpus of ids, in a folder, by `tokenizer` and chat `template`, with the
    last answer trained (`train` "all": every answer); `template_options` are what a template of a file reads beside the
    conversation, values of JSON, as {"enable_thinking": False}.

    `dataset`: hh, ultrafeedback, both or auto, which takes prompt-and-texts as well; at most `max_per_dataset` pairs of
    each. Rows whose sides differ in their prompts are dropped, or kept with that of the chosen side
    (`keep_differing`). `turns` makes the prompts of transcripts, HH-RLHF's, into messages. `like` "pile-hdf5" has the
    HDF5 project's rules; `shuffle` puts the lines of a file into the order of Python's own generator of that seed.
    `val_fraction` of the prompts, chosen by a hash of theirs, with all of their pairs are the split val of the corpus,
    or stand in a file of their own (pairs.jsonl has pairs.val.jsonl), in their order. Rows without a pair are counted
    by reason and listed in a side file. InputError for inputs without any, or more bad rows than `max_bad` (of at least
    10)."""
    asked = _Asked(dataset, like, keep_differing, turns, max_per_dataset, val_fraction, BadRows(on_bad, max_bad))
    asked.check()
    files, path = find_records(inputs, include), Path(out)
    tally = Tally(asked.limits)
    if path.suffix in (".json", ".gz", ".zst", ".parquet"):
        raise InputError(f"{path}: out: got a name in {path.suffix}, expected one in .jsonl, or that of a folder")
    if path.suffix == ".jsonl":
        if template_options:
            raise InputError("template_options: got some with lines, which no template renders; leave them out")
        _refuse_left_over(path, val_fraction)
        lines = _lines(_pairs(asked, files, tally, progress), shuffle)
        val = val_fraction > 0
        return write_rows(path, files, tally, lines, lambda: {"datasets": dict(sorted(tally.kinds.items()))}, val=val)
    if shuffle is not None:
        raise InputError("shuffle: got it with a corpus, whose order is the loader's; leave it out, or write a .jsonl")
    found = load_tokenizer(tokenizer) if isinstance(tokenizer, str | Path) else tokenizer
    chat = load_chat(template, found, train=train, variables=template_options)
    for file in (path, side_file(path)):
        refuse_input(file, files)
    facts = template_facts(chat, template, template_options)
    plan = {"kind": KIND, "rows_per_sample": ROWS, **facts, **asked.plan(files)}
    manifest = write_pairs(path, chat, plan, files, _pairs(asked, files, tally, progress), tally)
    if tally.rows:  # else the corpus lay there already
        write_side(side_file(path), list(tally.listed(files)))
    return _report(path, manifest)


def _refuse_left_over(path: Path, val_fraction: float) -> None:
    """InputError where a file of held-out pairs lies that this run would leave there: its prompts may be among those of
    `path`."""
    other = val_file(path)
    if not val_fraction and other.exists():
        raise InputError(
            f"{other}: got a file of held-out pairs beside pairs of which none are held out, expected none; remove it, "
            "give val_fraction, or choose another name"
        )


def _report(path: Path, manifest: Manifest) -> ExampleReport:
    """What the manifest says became of the rows, in this run or an earlier one."""
    facts = dict(manifest.balance["examples"])
    own = ("rows", "kept", "dropped", "bad", "notes", "unused_fields")
    side = side_file(path)
    return ExampleReport(
        path=path,
        side_file=side if side.is_file() else None,
        sha256=manifest.fingerprint,
        num_bytes=sum(shard.num_bytes for shard in manifest.shards),
        facts={name: value for name, value in facts.items() if name not in own},
        **{name: facts[name] for name in own},
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of the rows."""

    dataset: str
    like: str | None
    keep_differing: bool
    turns: bool
    most: int | None
    val_fraction: float
    limits: BadRows

    def check(self) -> None:
        self.limits.check()
        known = registry.load("examples", KIND).DATASETS
        if self.dataset not in known:
            raise InputError(f"dataset: got {self.dataset!r}, expected one of {', '.join(known)}; choose one")
        if self.like not in (None, LIKE):
            raise InputError(f"like: got {self.like!r}, expected {LIKE}; leave it out for the rules of this library")
        if self.most is not None and self.most < 1:
            raise InputError(f"max_per_dataset: got {self.most}, expected 1 or more")
        if not 0 <= self.val_fraction < 1:
            raise InputError(f"val_fraction: got {self.val_fraction}, expected at least 0 and below 1; give a share")

    def plan(self, files: Sequence[InputFile]) -> dict[str, Any]:
        """All of it that determines the pairs, as values of JSON."""
        inputs = [[file.name, sha256_file(file.path)] for file in files]
        rules = [self.dataset, self.like, self.keep_differing, self.turns, self.most]
        return {"inputs": inputs, "rules": rules, "val_fraction": self.val_fraction}


def _pairs(asked: _Asked, files: Sequence[InputFile], tally: Tally, progress: Progress | None) -> Iterator[PairRow]:
    module = registry.load("examples", KIND)
    rules = module.Rules(asked.dataset, asked.like or "", asked.keep_differing, asked.turns)
    for file, line, record in each_record(files, tally, progress):
        made = module.example(record, rules)
        if made in module.FAULTS:
            tally.refuse(file, line, made)
        elif isinstance(made, str):
            tally.drop(file, line, made)
        elif tally.kinds[made.dataset] == asked.most:
            tally.pass_over()
        else:
            tally.kinds[made.dataset] += 1
            tally.unused.update(record.keys() - {"prompt", "chosen", "rejected"})
            held = asked.val_fraction > 0 and prompt_held_out(made.prompt, asked.val_fraction)
            yield PairRow(made.prompt, made.chosen, made.rejected, file, line, held)


def prompt_held_out(prompt: str | Sequence[Mapping[str, str]], fraction: float) -> bool:
    """Do the pairs of a prompt belong to the validation split? It alone decides, as roles and contents; one text is
    a user's only message."""
    turns = [("user", prompt)] if isinstance(prompt, str) else [(turn["role"], turn["content"]) for turn in prompt]
    return bool(held_out([json.dumps(turns).encode()], fraction)[0])


def _lines(rows: Iterator[PairRow], shuffle: int | None) -> Iterator[tuple[bytes, bool]]:
    """The rows as JSON, and whether they are held out; those that are not in the order of Python's own shuffle if that
    is asked for: then all of them are kept in memory."""
    kept: list[bytes] = []
    for row in rows:
        line = dump({"prompt": row.prompt, "chosen": row.chosen, "rejected": row.rejected})
        if shuffle is None or row.held:
            yield line, row.held
        else:
            kept.append(line)
    if shuffle is not None:
        Dice(shuffle).shuffle(kept)
    yield from ((line, False) for line in kept)
