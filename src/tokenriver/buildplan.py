"""What a build was asked to do, as data: options, inputs, and the hidden folder in which an unfinished one lies.

The plan's digest covers everything that determines the corpus and nothing else (no path, worker or clock). A rerun
makes the plan again and compares: equal plans resume, others are refused with the difference by name.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from tokenriver.defaults import CHARACTERS, SHARD_TOKENS, TOKENIZER, UNIT_BYTES
from tokenriver.errors import InputError, LimitError, MismatchError
from tokenriver.files import list_folder
from tokenriver.filtering import NO_FILTERS, Filters
from tokenriver.inputs import InputFile
from tokenriver.manifest import BUILD_FOLDER, Manifest
from tokenriver.room import free_bytes
from tokenriver.types import SourceOptions, Tokenizer
from tokenriver.units import Lot, file_edges

BLANK_LINE = "blank-line"
BAD_ROWS_NAME = "bad_rows.jsonl"
MAX_SHARD_TOKENS = 2 * 10**9
"""llm.c counts a shard's ids in 32 bits; the rest is room for the last document."""
FRAMINGS = ("eos-after", "eos-before", "bos-eos", "none")
PRESETS: dict[str, dict[str, Any]] = {
    "llmc": {"framing": "eos-before", "format": "llmc"},
    "nanogpt": {"framing": "eos-after", "format": "nanogpt"},
    "pile-hdf5": {"framing": "eos-after", "format": "hdf5", "layout": "pile", "stored": "int32"},
    "minimind": {"framing": "bos-eos", "format": "minimind"},
    "hdf5-shards": {"framing": "eos-after", "format": "hdf5", "layout": "lesson", "tokenizer": "byte-shifted"},
}
"""How other systems frame, store and lay out (formats.md, sections 1, 6, 7, 10 and 12); explicit options win."""
MIN_BYTES_PER_TOKEN = 8
"""For the estimate of space: no ordinary text packs tighter, so a refusal is never wrong by much."""


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """What determines a corpus besides its inputs and tokenizer."""

    framing: str = "eos-after"
    source: str = "auto"
    options: SourceOptions = field(default_factory=SourceOptions)
    val_fraction: float = 0.0
    val_tokens: int | None = None
    max_tokens: int | None = None
    shard_tokens: int | None = SHARD_TOKENS
    """None: one shard a split (only in formats that are not ours)."""
    unit_bytes: int = UNIT_BYTES
    name: str = "tokens"
    exact: bool = False
    format: str = "native"
    layout: str = ""
    """Variant of the format."""
    stored: str | None = None
    """How ids are stored, where it is not what the vocabulary needs."""
    filters: Filters = NO_FILTERS
    """Which documents stay."""
    bos: str | None = None
    """Another control token of the tokenizer than its usual one; so with eos."""
    eos: str | None = None

    def as_dict(self, dtype: str) -> dict[str, Any]:
        """As the manifest records it. digest_block_bytes: an uncompressed input that is longer has, as its sha256, the
        sha256 of the digests of its blocks of this size, since several workers read it."""
        separator = self.options.separator
        chosen = {role: name for role, name in (("bos", self.bos), ("eos", self.eos)) if name is not None}
        return {
            **chosen,
            "cut": "exact" if self.exact else "documents",
            "digest_block_bytes": self.unit_bytes,
            "dtype": dtype,
            "filters": [spec.as_dict() for spec in self.filters.specs] or None,
            "format": self.format,
            "framing": self.framing,
            "keep_separator": self.options.keep_separator,
            "layout": self.layout,
            "max_document_tokens": self.filters.max_document_tokens,
            "max_tokens": self.max_tokens,
            "name": self.name,
            "separator": None if separator is None else separator.decode("utf-8", "backslashreplace"),
            "shard_tokens": self.shard_tokens,
            "source": self.source,
            "stored": self.stored,
            "text_field": self.options.text_field,
            "unit_bytes": self.unit_bytes,
            "val_fraction": self.val_fraction,
            "val_tokens": self.val_tokens,
        }


def preset(like: str | None) -> dict[str, Any]:
    """What a preset sets; InputError for one that is not known."""
    if like is None:
        return {}
    if like not in PRESETS:
        raise InputError(f"like: got {like!r}, expected one of {', '.join(sorted(PRESETS))}")
    return PRESETS[like]


def tokenizer_name(given: str | Path | None, like: str | None) -> str:
    """The tokenizer that was named, else the preset's."""
    if given is None and like == "minimind":
        raise InputError("tokenizer: got none with like 'minimind', expected the path of its tokenizer.json")
    return str(given if given is not None else preset(like).get("tokenizer", TOKENIZER))


def usual_framing(like: str | None, tokenizer: str) -> str:
    """The preset's framing; nanoGPT's sets of characters have no marks between documents, and no id for one."""
    if like == "nanogpt" and (tokenizer == CHARACTERS or tokenizer.endswith(".pkl")):
        return "none"
    return str(preset(like).get("framing", "eos-after"))


def source_options(text_field: str, separator: str | None) -> SourceOptions:
    """How texts are found; `blank-line` is a separator that stays with its text, as llm.c has it."""
    if separator == BLANK_LINE:
        return SourceOptions(text_field, b"\n\n", keep_separator=True)
    if separator == "":
        raise InputError("separator: got an empty text, expected the text between documents, or blank-line")
    return SourceOptions(text_field, None if separator is None else separator.encode("utf-8", "surrogateescape"))


def check_options(options: BuildOptions) -> None:
    """Refuse values that cannot be meant; InputError with the parameter's name."""
    numbers = {"val_tokens": options.val_tokens, "max_tokens": options.max_tokens, "shard_tokens": options.shard_tokens}
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise InputError(f"{name}: got {number}, expected at least 1")
    if options.shard_tokens is not None and options.shard_tokens > MAX_SHARD_TOKENS and options.format == "native":
        raise InputError(f"shard_tokens: got {options.shard_tokens}, expected at most {MAX_SHARD_TOKENS}")
    if options.unit_bytes < 1024:
        raise InputError(f"unit_bytes: got {options.unit_bytes}, expected at least 1024")
    if not 0.0 <= options.val_fraction < 1.0:
        raise InputError(f"val_fraction: got {options.val_fraction}, expected at least 0 and below 1")
    if options.val_fraction and options.val_tokens:
        raise InputError("val_fraction and val_tokens: got both, expected one; each chooses the validation split")
    if options.framing not in FRAMINGS:
        raise InputError(f"framing: got {options.framing!r}, expected one of {', '.join(FRAMINGS)}")
    name = options.name
    if (
        not name
        or len(name) > 100
        or name[0] in ".-"
        or not all(c.isascii() and (c.isalnum() or c in "._-") for c in name)
    ):
        raise InputError(f"name: got {name!r}, expected 1 to 100 of A-Z a-z 0-9 . _ - and no leading dot or hyphen")


def framing_ids(framing: str, tokenizer: Tokenizer) -> tuple[int | None, int | None]:
    """(id before, id behind) each document; InputError if the tokenizer has no such id."""

    def need(role: str, value: int | None) -> int:
        if value is None:
            raise InputError(
                f"framing: got {framing!r}, but tokenizer {tokenizer.name!r} has no {role} id; use framing 'none', "
                f"or a tokenizer whose {role} token is named in its configuration"
            )
        return value

    if framing == "none":
        return None, None
    if framing == "eos-before":
        return need("eos", tokenizer.eos_id), None
    after = need("eos", tokenizer.eos_id)
    if framing == "eos-after":
        return None, after
    before = need("bos", tokenizer.bos_id)
    if before == after:
        raise InputError(
            f"framing: got 'bos-eos', but tokenizer {tokenizer.name!r} has one id, {before}, for both, so documents "
            f"would be parted by it twice; use framing 'eos-after' or 'eos-before'"
        )
    return before, after


def stored_dtype(vocab_size: int) -> str:
    return "uint16" if vocab_size <= 1 << 16 else "uint32"


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """Options, tokenizer and inputs, and their digest."""

    content: Mapping[str, Any]

    @property
    def digest(self) -> str:
        return hashlib.sha256(orjson.dumps(self.content, option=orjson.OPT_SORT_KEYS)).hexdigest()

    def tagged(self, lots: list[Lot]) -> list[Lot]:
        """The lots with their tags: options, tokenizer and the lot's own inputs and their numbers, so that an input
        that is replaced leaves the finished units of the others valid."""
        shared = {name: self.content[name] for name in ("options", "tokenizer")}
        out = []
        for lot in lots:
            pieces = [
                [piece.source, self.content["inputs"][piece.source], piece.start, piece.stop] for piece in lot.pieces
            ]
            text = orjson.dumps([shared, lot.index, pieces], option=orjson.OPT_SORT_KEYS)
            out.append(replace(lot, tag=hashlib.sha256(text).hexdigest()))
        return out


def make_plan(files: list[InputFile], options: dict[str, Any], tokenizer: Tokenizer) -> BuildPlan:
    """The plan of these inputs and options (as the manifest records them)."""
    inputs = [
        {
            "path": f.name,
            "size": f.size,
            "kind": f.kind,
            "compression": f.compression,
            "edges": file_edges(f.path, f.size),
        }
        for f in files
    ]
    return BuildPlan({"options": options, "tokenizer": tokenizer.fingerprint, "inputs": inputs})


def plans_of(manifest: Manifest) -> list[str]:
    """Digests of the plans that a corpus was built by, one a build; a corpus of other making has none."""
    plans = manifest.options.get("plans")
    return [plan for plan in plans if isinstance(plan, str)] if isinstance(plans, list) else []


def changed_options(before: Manifest, plan: BuildPlan) -> list[str]:
    """How these options differ from those of a committed corpus, in words; what only counts from the start of a
    corpus (val_tokens, max_tokens) is no difference."""
    out = []
    made_by = before.tokenizer
    if made_by is None or made_by.fingerprint != plan.content["tokenizer"]:
        known = "an unknown one" if made_by is None else repr(made_by.name)
        out.append(f"tokenizer: got another than {known}, which the corpus was built with")
    asked = {"bos": None, "eos": None, **plan.content["options"]}
    for name, value in asked.items():
        if name not in ("val_tokens", "max_tokens") and before.options.get(name) != value:
            out.append(f"{name}: got {value!r}, expected {before.options.get(name)!r}")
    return out


def refuse_or_append(out: Path, append: bool, before: Manifest, plan: BuildPlan) -> None:
    """A committed corpus is never replaced; it can be added to with the options that it was built with."""
    changed = changed_options(before, plan)
    if not append:
        what = f"{changed[0]}; " if changed else ""
        raise MismatchError(
            f"{out}: holds a corpus built with other options or from other inputs; {what}choose another folder, "
            f"or add to it with append"
        )
    if changed:
        raise MismatchError(f"{out}: append: {changed[0]}; append with the options that the corpus was built with")


def check_space(out: Path, files: list[InputFile], dtype: str) -> int:
    """An estimate, on the low side, of the bytes a build needs (parts and shards); LimitError if they are not free,
    what an earlier run has written counted in."""
    text = sum(f.size * (3 if f.compression else 1) for f in files)
    needed = 2 * (text // MIN_BYTES_PER_TOKEN) * (2 if dtype == "uint16" else 4)
    free = free_bytes(out)
    parts = out / BUILD_FOLDER
    have = sum((parts / name).stat().st_size for name in list_folder(parts)) if parts.is_dir() else 0
    if needed > free + have:
        raise LimitError(
            f"{out}: free space: got {free} bytes, expected at least {needed - have}; free some or choose another disk"
        )
    return needed
