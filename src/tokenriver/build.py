"""Text -> corpus: find the inputs, cut them into units, have them done, assemble the parts, commit.

The manifest is written last and is the one commit point; whatever kills the build before, the same command resumes
it, and the corpus that results has the same bytes.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tokenriver import buildfolder, buildplan, characters, reformat, registry, textdigests
from tokenriver.buildplan import BuildOptions, BuildPlan
from tokenriver.commit import Ending, commit
from tokenriver.crew import Crew, open_nursery
from tokenriver.defaults import UNIT_BYTES
from tokenriver.early import EarlyOptions, EarlyShards
from tokenriver.engines._unit import Work
from tokenriver.engines.nursery import Nursery, TokenizerName
from tokenriver.errors import InputError, MismatchError
from tokenriver.feeding import Feeder
from tokenriver.files import make_folder
from tokenriver.filtering import parse_filters
from tokenriver.inputs import InputFile, find_inputs
from tokenriver.limits import BadRows
from tokenriver.manifest import BUILD_FOLDER, MANIFEST_NAME, Manifest, read_manifest
from tokenriver.parts import Receipt
from tokenriver.roles import choose
from tokenriver.textdigests import Earlier
from tokenriver.types import Tokenizer
from tokenriver.units import make_lots

Progress = Callable[[int, int], None]
HANDS = 4
"""So many remove what a build with workers leaves behind: mostly they wait for the disk to take its room back."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did; `as_dict` is what --json prints."""

    path: Path
    splits: dict[str, dict[str, int]]
    """By split: ids, documents, shards."""
    balance: dict[str, Any]
    """Documents and ids by fate, as the manifest has them."""
    complete_before: bool
    """The corpus was there already, built with the same options from the same inputs."""
    units: int
    resumed: int
    """Units that an earlier run had finished."""
    checked_bytes: int
    """Text compared with the reference encoder."""
    encoder: str
    bad_rows: Path | None

    @property
    def num_tokens(self) -> int:
        return sum(split["ids"] for split in self.splits.values())

    @property
    def num_documents(self) -> int:
        return sum(split["documents"] for split in self.splits.values())

    def as_dict(self) -> dict[str, Any]:
        data = {**asdict(self), "path": str(self.path), "num_tokens": self.num_tokens}
        return {**data, "num_documents": self.num_documents, "bad_rows": str(self.bad_rows) if self.bad_rows else None}


@dataclass(slots=True)
class _Request:
    """Everything that was asked of one build."""

    inputs: list[str | Path]
    out: Path
    name: TokenizerName
    options: BuildOptions
    include: Sequence[str]
    append: bool
    limits: BadRows
    workers: int | Nursery | None
    check: bool
    progress: Progress | None


def build(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    tokenizer: str | Path | None = None,
    like: str | None = None,
    format: str | None = None,
    layout: str | None = None,
    framing: str | None = None,
    bos: str | None = None,
    eos: str | None = None,
    source: str = "auto",
    text_field: str = "text",
    separator: str | None = None,
    include: Sequence[str] = (),
    val_fraction: float = 0.0,
    val_tokens: int | None = None,
    max_tokens: int | None = None,
    max_document_tokens: int | None = None,
    filter: str | Sequence[str] = (),
    shard_tokens: int | None = None,
    unit_bytes: int = UNIT_BYTES,
    name: str = "tokens",
    append: bool = False,
    on_bad: str = "skip",
    max_bad: float = 0.01,
    workers: int | Nursery | None = None,
    encoder: str = "fast",
    encoder_check: bool = True,
    search: Sequence[str | Path] = (),
    progress: Progress | None = None,
) -> BuildReport:
    """Build a corpus at `out` from `inputs` (files, folders, globs); rerun after any interruption to resume.

    Options as in `tokenriver build --help`; explicit ones win over the preset `like`. `separator` parts plain text
    ("blank-line" or a text). `bos`, `eos`: control tokens by name, where the tokenizer has several. `filter`: names of
    filters, with parameters as in "length:min_chars=20". `search`: folders in which tokenizer files are looked for.
    `workers`: how many, or a nursery begun before. `progress(done, total)` is called with stored bytes of the inputs.
    Raises RiverError's children; what is unfinished stays resumable."""
    preset = buildplan.preset(like)
    chosen = format or preset.get("format", "native")
    usual = preset if chosen == preset.get("format") else {}
    module = registry.load("formats", chosen)
    made_by = buildplan.tokenizer_name(tokenizer, like)
    options = BuildOptions(
        framing=framing or buildplan.usual_framing(like, made_by),
        source=source,
        options=buildplan.source_options(text_field, separator),
        val_fraction=val_fraction,
        val_tokens=val_tokens,
        max_tokens=max_tokens,
        shard_tokens=shard_tokens if shard_tokens is not None else module.SHARD_TOKENS,
        unit_bytes=unit_bytes,
        name=name,
        exact=chosen == "llmc",
        format="native" if chosen == "llmc" else chosen,
        layout=layout if layout is not None else usual.get("layout", ""),
        stored=usual.get("stored"),
        filters=parse_filters(filter, max_document_tokens),
        bos=bos,
        eos=eos,
    )
    buildplan.check_options(options)
    given = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    request = _Request(
        inputs=given,
        out=Path(out).absolute(),
        name=TokenizerName(made_by, tuple(str(folder) for folder in search), encoder),
        options=options,
        include=include,
        append=append,
        limits=BadRows(on_bad, max_bad),
        workers=workers,
        check=encoder_check and encoder == "fast",
        progress=progress,
    )
    _check_request(request)
    return _build(request)


def _check_request(request: _Request) -> None:
    if isinstance(request.workers, int) and request.workers < 1:
        raise InputError(f"workers: got {request.workers}, expected at least 1")
    request.limits.check()
    if request.name.encoder not in ("fast", "reference"):
        raise InputError(f"encoder: got {request.name.encoder!r}, expected fast or reference")
    if request.append and request.options.format != "native":
        raise InputError(
            f"append: got it with format {request.options.format!r}, expected native; append to a native corpus and "
            "convert it"
        )
    if request.append and (request.options.val_tokens or request.options.max_tokens):
        raise InputError(
            "append: got it together with val_tokens or max_tokens, which count from the start of a corpus; "
            "leave them out, or build anew from all inputs"
        )


def _build(request: _Request) -> BuildReport:
    files = find_inputs(request.inputs, source=request.options.source, include=request.include, exclude=request.out)
    name = characters.settle(request.name, files, request.out, request.options.options, request.progress)
    nursery = open_nursery(request.workers, name, files)
    options = request.options
    with Crew(name, nursery, check=request.check) as crew:
        tokenizer = choose(crew.tokenizer, options.framing, bos=options.bos, eos=options.eos)
        dtype = buildplan.stored_dtype(tokenizer.vocab_size)
        reformat.stored_dtype(options, tokenizer.vocab_size, dtype)
        buildplan.framing_ids(options.framing, tokenizer)  # refused here, it leaves no plan behind
        plan = buildplan.make_plan(files, options.as_dict(dtype), tokenizer)
        before = _committed(request.out)
        if before is not None:
            buildfolder.clean_finished(request.out, before)
            if plan.digest in buildplan.plans_of(before):
                return _report(request, before, crew.encoder)
            buildplan.refuse_or_append(request.out, request.append, before, plan)
        earlier = textdigests.earlier(request.out, before) if options.filters.once else textdigests.NOTHING
        make_folder(request.out / BUILD_FOLDER)
        with buildfolder.locked(request.out / BUILD_FOLDER):
            if _committed(request.out) != before:
                raise MismatchError(f"{request.out}: another build was committed here meanwhile; run the command again")
            folder = buildfolder.open_build_folder(request.out, plan, before)
            buildplan.check_space(request.out, files, dtype)
            feeder = _feeder(request, files, plan, tokenizer, folder, earlier)
            with EarlyShards(_early_options(request, before, nursery), feeder) as early:
                crew.run(feeder, _seen(request, feeder, early))
                feeder.leave_out_duplicates()
                feeder.raise_failures()
                ending = Ending(request.out, plan, options, request.limits, before, early.finish())
                manifest = commit(ending, feeder, tokenizer)
            buildfolder.remove_build_folder(folder, hands=HANDS if nursery is not None else 1)
            done = _report(request, manifest, crew.encoder)
    return replace(
        done,
        complete_before=False,
        units=len(feeder.issued),
        resumed=feeder.resumed,
        checked_bytes=crew.checked_bytes,
    )


def _committed(out: Path) -> Manifest | None:
    return read_manifest(out) if (out / MANIFEST_NAME).exists() else None


def _feeder(
    request: _Request, files: list[InputFile], plan: BuildPlan, tokenizer: Tokenizer, folder: Path, earlier: Earlier
) -> Feeder:
    options = request.options
    before, after = buildplan.framing_ids(options.framing, tokenizer)
    work = Work(
        folder=folder,
        dtype=plan.content["options"]["dtype"],
        before=before,
        after=after,
        val_fraction=options.val_fraction,
        unit_bytes=options.unit_bytes,
        options=options.options,
        filters=options.filters,
    )
    lots = plan.tagged(make_lots(files, options.options, options.unit_bytes))
    return Feeder(lots, files, work, options.max_tokens, request.check, earlier)


def _early_options(request: _Request, before: Manifest | None, workers: Nursery | None) -> EarlyOptions | None:
    """How to begin shards early; not where a later unit can change what an earlier one's ids are for, nor alone."""
    options = request.options
    if workers is None or options.shard_tokens is None or options.format != "native" or options.exact:
        return None
    if options.val_fraction or options.val_tokens or options.max_tokens or options.filters.once:
        return None
    first = len(before.split("train")) if before is not None else 0
    return EarlyOptions(request.out, options.name, first, options.shard_tokens)


def _seen(request: _Request, feeder: Feeder, early: EarlyShards) -> Callable[[Receipt], None]:
    """What happens when a unit is done: progress, a head start for its shard, and an end to the build at the first bad
    row if that was asked."""
    files = feeder.files
    total = sum(file.size for file in files)

    # with max_tokens a unit may lie beyond what is wanted: then the end of the build decides
    at_once = request.options.max_tokens is None

    def seen(receipt: Receipt) -> None:
        if receipt.bad and at_once:
            piece, _, offset, reason = receipt.bad[0]
            request.limits.meet(files[receipt.pieces[piece].source], offset, reason, "byte")
        early.offer()
        if request.progress is not None:
            request.progress(min(feeder.done_bytes, total), total)

    return seen


def _report(request: _Request, manifest: Manifest, encoder: str) -> BuildReport:
    bad = request.out / buildplan.BAD_ROWS_NAME
    return BuildReport(
        path=request.out,
        splits=manifest.counts(),
        balance=dict(manifest.balance),
        complete_before=True,
        units=0,
        resumed=0,
        checked_bytes=0,
        encoder=encoder,
        bad_rows=bad if manifest.balance["bad_rows"] else None,
    )
