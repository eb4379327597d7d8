"""Corpora -> a corpus in another format: the same ids, documents and order, or a refusal that says why.

Several sources are joined in the order given. Everything that the target cannot hold is refused before anything is
written; files are written by the commit protocol, the manifest last. A conversion that was killed is begun anew by the
same command; until it is complete, its folder is no corpus.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tokenriver import files, outfolder, registry, rules, transfer
from tokenriver.agreement import Agreement, agree, choose_dtype
from tokenriver.corpus import Corpus, open_corpus
from tokenriver.errors import InputError, LimitError
from tokenriver.flows import Joined
from tokenriver.locks import hold_lock
from tokenriver.manifest import BUILD_FOLDER, Manifest, write_manifest
from tokenriver.outfolder import LOCK_NAME
from tokenriver.reformat import vocabulary_files
from tokenriver.storage import Format
from tokenriver.transfer import Cutting, Job, Outcome
from tokenriver.types import Tokenizer

PLAN_NAME = "convert.json"
NAME = "tokens"

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """What a conversion did; `as_dict` is what --json prints."""

    path: Path
    format: str
    dtype: str
    splits: dict[str, dict[str, int | None]]
    """By split: ids, documents (None if they are not known), shards."""
    balance: dict[str, Any]
    notes: tuple[str, ...]
    """What the sources do not say, or what the target shows otherwise, in words."""
    complete_before: bool

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "path": str(self.path)}


@dataclass(frozen=True, slots=True)
class _Request:
    """Everything that was asked of one conversion, besides its sources."""

    out: Path
    format: str
    layout: str
    dtype: str | None
    shard_tokens: int | None
    sample_tokens: int | None
    name: str
    need_documents: bool


def convert(
    sources: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    format: str,
    layout: str = "",
    dtype: str | None = None,
    shard_tokens: int | None = None,
    sample_tokens: int | None = None,
    name: str = NAME,
    source_format: str | None = None,
    source_dtype: str | None = None,
    tokenizer: str | Path | Tokenizer | None = None,
    eos_id: int | None = None,
    framing: str = "eos-after",
    need_documents: bool = False,
    search: Sequence[str | Path] = (),
    progress: Progress | None = None,
) -> ConvertReport:
    """Write the corpora `sources` (paths as open_corpus takes them), joined in this order, to the folder `out`.

    `layout` is a variant of the format; `dtype` how ids are stored; `shard_tokens` the exact ids of each shard but a
    split's last (without it shards end at documents, at the format's usual size); `sample_tokens` the ids of each
    sample of a format whose trainer takes one by one (None: a sample is a document); `name` begins file names.
    `source_format`, `source_dtype`, `tokenizer`, `eos_id` and `framing` are handed to open_corpus. `need_documents`
    refuses sources without document bounds. progress(done, total) is called with ids. Raises RiverError's children."""
    given = [sources] if isinstance(sources, str | Path) else list(sources)
    request = _Request(Path(out).absolute(), format, layout, dtype, shard_tokens, sample_tokens, name, need_documents)
    module = registry.load("formats", format)
    _check_request(request, given, module)

    def opened(path: str | Path, split: str = "train") -> Corpus:
        return open_corpus(
            path,
            split=split,
            format=source_format,
            tokenizer=tokenizer,
            tokenizer_search=tuple(map(Path, search)),
            dtype=source_dtype,
            eos_id=eos_id,
            framing=framing,
        )

    agreed = agree([opened(path) for path in given], lambda corpus, split: opened(corpus.path, split))
    return _Conversion(request, module, agreed).run(progress)


def _check_request(request: _Request, given: list[str | Path], module: Format) -> None:
    if not given:
        raise InputError("sources: got none, expected at least one corpus")
    if not module.DTYPES:
        raise InputError(f"format: got {request.format!r}, which is read only; choose another")
    rules.check(request.out, "options", {"name": request.name}, {"name": rules.PLAIN})
    if request.shard_tokens is not None and request.shard_tokens < 1:
        raise InputError(f"shard_tokens: got {request.shard_tokens}, expected at least 1")
    if request.sample_tokens is not None:
        _check_samples(request, request.sample_tokens, module)
    for path in given:
        if request.out == Path(path).absolute() or request.out in Path(path).absolute().parents:
            raise InputError(f"{request.out}: holds the source {path}; choose another folder to write")


def _check_samples(request: _Request, size: int, module: Format) -> None:
    if not getattr(module, "SAMPLES", False):
        raise InputError(f"sample_tokens: got {size} for format {request.format!r}, which has no samples; leave it out")
    if size < 1:
        raise InputError(f"sample_tokens: got {size}, expected at least 1")
    if request.shard_tokens is not None and request.shard_tokens % size:
        near = max(size, request.shard_tokens - request.shard_tokens % size)
        raise InputError(
            f"shard_tokens: got {request.shard_tokens}, expected whole samples of {size}; take {near}, or leave it out"
        )


class _Conversion:
    """One conversion: what its sources agree on, and the jobs that follow from it."""

    def __init__(self, request: _Request, module: Format, agreed: Agreement) -> None:
        self._request, self._module, self._agreed = request, module, agreed
        self._dtype = choose_dtype(agreed, module, request.format, request.dtype)

    def run(self, progress: Progress | None) -> ConvertReport:
        jobs = [self._job(split, corpora) for split, corpora in self._agreed.splits.items()]
        transfer.refuse_unheld(self._module, jobs)
        out, plan = self._request.out, self._plan()
        before = self._complete(plan)
        if before is not None:
            return self._report(before, complete=True)
        folder = out / BUILD_FOLDER
        files.make_folder(folder)
        with hold_lock(folder / LOCK_NAME) as held:
            if not held:
                raise InputError(f"{out}: another build is at work here; wait for it or choose another folder")
            outfolder.begin(out, folder / PLAN_NAME, plan, "conversion")
            count = _counter(progress, self._agreed.num_tokens)
            outcomes = {job.target.split: transfer.write_split(out, self._module, job, count) for job in jobs}
            manifest = self._manifest(outcomes, plan)
            made_by = self._agreed.corpora[0].tokenizer if self._named("char") else None
            manifest = replace(manifest, files=(*manifest.files, *vocabulary_files(out, made_by)))
            write_manifest(out, manifest)
            files.remove_folder(folder, last=(PLAN_NAME, LOCK_NAME))
        return self._report(manifest, complete=False)

    def _job(self, split: str, corpora: Sequence[Corpus]) -> Job:
        request, module = self._request, self._module
        unknown = [corpus for corpus in corpora if corpus.num_documents is None]
        if unknown and request.need_documents:
            raise LimitError(
                f"{unknown[0].path}: documents: got no bounds, expected them; give eos_id, or leave need_documents out"
            )
        size, exact = request.shard_tokens or module.SHARD_TOKENS, request.shard_tokens is not None
        cutting = Cutting(size, exact, request.sample_tokens)
        # a native shard has an index whatever happens: then a file is a document, and the notes say so
        indexed = not unknown or len(unknown) < len(corpora) or request.format == "native"
        agreed, names = self._agreed, [source.path for source in self._agreed.sources]
        target = transfer.base_target(request.name, self._dtype, request.layout, agreed.tokenizer, names)
        flow = Joined(corpora)
        mask = flow.trained if any(corpus.has_loss_mask for corpus in agreed.corpora) else None
        return transfer.make_job(flow, module, cutting, replace(target, split=split), indexed=indexed, mask=mask)

    # ------------------------------------------------------------------------------------------- what was written

    def _plan(self) -> dict[str, Any]:
        """What determines the result, in the manifest's options."""
        request = self._request
        return {
            "converted_from": {
                split: [c.fingerprint for c in corpora] for split, corpora in self._agreed.splits.items()
            },
            "dtype": self._dtype,
            "layout": request.layout,
            "name": request.name,
            "shard_tokens": request.shard_tokens,
            **({} if request.sample_tokens is None else {"sample_tokens": request.sample_tokens}),
        }

    def _named(self, tokenizer: str) -> bool:
        return self._agreed.tokenizer is not None and self._agreed.tokenizer.name == tokenizer

    def _manifest(self, outcomes: dict[str, Outcome], plan: dict[str, Any]) -> Manifest:
        agreed = self._agreed
        shards = tuple(shard for outcome in outcomes.values() for shard in outcome.shards)
        kept = {split: sum(shard.num_tokens for shard in outcome.shards) for split, outcome in outcomes.items()}
        documents = {split: sum(shard.num_documents for shard in outcome.shards) for split, outcome in outcomes.items()}
        balance = {
            "bad_rows": {},
            "documents": {"kept": documents, "cut_by_shards": sum(o.cut_documents for o in outcomes.values())},
            "ids": {"read": agreed.num_tokens, "kept": kept},
        }
        assert sum(kept.values()) == agreed.num_tokens, "law 1: what is read is written"
        return Manifest(
            format=self._request.format,
            tokenizer=agreed.tokenizer,
            framing=agreed.framing,
            dtype=self._dtype,
            options=plan,
            sources=agreed.sources,
            shards=shards,
            balance=balance,
            files=tuple(file for outcome in outcomes.values() for file in outcome.files),
            rivers=dict(agreed.rivers),
        )

    def _complete(self, plan: dict[str, Any]) -> Manifest | None:
        """The corpus that lies in the folder already, if it is the very one asked for."""
        return outfolder.complete(self._request.out, self._request.format, plan, last=(PLAN_NAME, LOCK_NAME))

    def _report(self, manifest: Manifest, *, complete: bool) -> ConvertReport:
        splits: dict[str, dict[str, int | None]] = {}
        for split, counts in manifest.counts().items():
            known = all(shard.index_bytes for shard in manifest.split(split))
            splits[split] = {**counts} if known else {**counts, "documents": None}
        request = self._request
        notes = (*self._agreed.notes, *self._sample_notes(manifest))
        return ConvertReport(request.out, request.format, self._dtype, splits, dict(manifest.balance), notes, complete)

    def _sample_notes(self, manifest: Manifest) -> Iterator[str]:
        size = self._request.sample_tokens
        if size is None:
            return
        for split, counts in manifest.counts().items():
            number, rest = divmod(counts["ids"], size)
            yield f"{split}: {number:,} samples of {size:,} ids" + (f", and one of the last {rest:,}" if rest else "")


def _counter(progress: Progress | None, total: int) -> Callable[[int], None]:
    """Sums up the ids of blocks for a progress bar; a format that passes over the ids twice stays at the end."""
    done = 0

    def count(ids: int) -> None:
        nonlocal done
        done = min(total, done + ids)
        if progress is not None:
            progress(done, total)

    return count
