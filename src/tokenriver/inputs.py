"""From what a person typed to the list of input files: files, folders and globs.

The order is that of the inputs, and inside a folder that of the paths' bytes, whatever the disk says. Nothing is left
out in silence but hidden files and the output folder: what cannot be used is an error that names it.
"""

import json
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import glob, has_magic
from pathlib import Path

from tokenriver import registry
from tokenriver.errors import InputError
from tokenriver.files import list_folder, naming
from tokenriver.kinds import Kind, known_kinds, named, named_kind, read_head, settle

_SPLITS = "dataset_dict.json"


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of text, and how to read it."""

    path: Path
    """Absolute."""
    name: str
    """POSIX path relative to the inputs' deepest common folder: what the manifest records."""
    size: int
    """Bytes on disk."""
    kind: str
    """Key of the registry of sources."""
    compression: str
    """ "", "gzip" or "zstd"."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A path on its way to becoming an InputFile."""

    path: Path
    explicit: bool
    """Typed by name, not met in a folder."""


def find_inputs(
    inputs: Sequence[str | Path],
    *,
    source: str = "auto",
    include: Sequence[str] = (),
    exclude: Path | None = None,
    arrays: bool = False,
) -> list[InputFile]:
    """The files behind `inputs` (a file, a folder with everything below it, a glob), in order. `include` filters what
    is met in folders, by path below the folder or by name; `exclude` is a folder to pass over; with `arrays` a JSON
    array is jsonl. InputError for an input that is missing, given twice, empty, of no or two kinds, or when nothing is
    found."""
    insisted = None if source == "auto" else named_kind(source)
    hidden = os.path.realpath(exclude) if exclude is not None else None
    found = [item for entry in inputs for item in _expand(os.fspath(entry), include, hidden)]
    if not found:
        raise InputError(f"inputs: found no file in {', '.join(map(str, inputs)) or 'an empty list'}; check the paths")
    _refuse_twice(found)
    kinds = known_kinds()
    base = os.path.commonpath([item.path.parent for item in found])
    return [_describe(item, base, kinds, insisted, arrays) for item in found]


def seen_fields(file: InputFile) -> list[str]:
    """Names of the fields that an input has, sorted, for the message about one that it has not."""
    fields: list[str] = registry.load("sources", file.kind).fields(file.path, read_head(file.path)[1])
    return fields


def _describe(item: _Found, base: str, kinds: list[Kind], insisted: Kind | None, arrays: bool) -> InputFile:
    path = item.path
    name = path.relative_to(base).as_posix()
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{os.fsencode(path)!r}: name: expected valid UTF-8; rename the file") from error
    with naming(path, "read"):
        size = path.stat().st_size
    compression, head, damage = read_head(path)
    if head:
        kind = settle(path, head, compression, kinds, insisted, arrays=arrays)
        if compression and not kind.is_stream:
            raise InputError(f"{path}: content: got {compression} around {kind.name}, expected it bare; unpack it")
        return InputFile(path, name, size, kind.name, compression)
    promised = insisted or named(path, kinds)
    if damage is not None:
        # the build names it when it comes to it, and does the others
        if promised is None or not promised.is_stream:
            raise damage
        return InputFile(path, name, size, promised.name, compression)
    # an empty text met in a folder is an empty document (noted by the source); any other empty file is a lost one
    if item.explicit or promised is None or promised.name != "text":
        raise InputError(f"{path}: content: got an empty file, expected rows; replace it or leave it out")
    return InputFile(path, name, size, promised.name, compression)


def _refuse_twice(found: list[_Found]) -> None:
    seen: dict[str, Path] = {}
    for item in found:
        real = os.path.realpath(item.path)
        if real in seen:
            raise InputError(f"{item.path}: given twice, also as {seen[real]}; name it once")
        seen[real] = item.path


# ------------------------------------------------------------------------------------------------ finding files


def _expand(entry: str, include: Sequence[str], hidden: str | None) -> Iterator[_Found]:
    if "://" in entry:
        raise InputError(
            f"{entry}: got a URL, expected a file, folder or glob of this machine; download it first, as "
            "the command `tokenriver build` does"
        )
    if os.path.lexists(entry):
        yield from _take(entry, include, hidden)
        return
    if not has_magic(entry):
        raise InputError(f"{entry}: no such file or folder; check the path")
    matches = sorted(glob(entry, recursive=True), key=os.fsencode)
    if not matches:
        raise InputError(f"{entry}: the glob matches nothing; check the pattern")
    # with ** a folder and the files in it both match: the files are enough
    whole = [match for match in matches if os.path.isfile(match)] if "**" in entry else matches
    for match in whole:
        yield from (_Found(item.path, False) for item in _take(match, include, hidden))


def _take(entry: str, include: Sequence[str], hidden: str | None) -> Iterator[_Found]:
    path = Path(os.path.abspath(entry))
    if hidden is not None and _is_below(os.path.realpath(path), hidden):
        raise InputError(f"{path}: lies in the output folder, which is no input; choose another output folder")
    with naming(path, "read"):
        mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        files = [file for _, file in sorted(_walk(path, hidden)) if _wanted(file, path, include)]
        _refuse_splits(files)
        if not files:
            chosen = f" that matches {' or '.join(include)}" if include else ""
            raise InputError(f"{path}: found no file{chosen} in this folder; check the path or the pattern")
        yield from (_Found(file, False) for file in files)
    elif stat.S_ISREG(mode):
        yield _Found(path, True)
    else:
        raise InputError(f"{path}: got a device, pipe or socket, expected a file or a folder; write it to a file first")


def _walk(top: Path, hidden: str | None) -> Iterator[tuple[bytes, Path]]:
    """(place in the order, absolute path) of every file below top, hidden ones and `hidden` left out; a symbolic link
    to a folder that it lies in is not followed."""
    waiting = [(top, frozenset([os.path.realpath(top)]))]
    while waiting:
        folder, above = waiting.pop()
        names = list_folder(folder)
        saved = _saved_dataset(folder, names)
        for i, name in enumerate(names if saved is None else saved):
            path = folder / name
            if name.startswith(".") or (name == _SPLITS and _holds_splits(folder, names)):
                continue
            with naming(path, "read"):
                mode = path.stat().st_mode
            if stat.S_ISDIR(mode):
                real = os.path.realpath(path)
                if real not in above and real != hidden:
                    waiting.append((path, above | {real}))
            elif stat.S_ISREG(mode):
                yield os.fsencode(path if saved is None else folder / f"{i:08}"), path
            else:
                raise InputError(f"{path}: got a device, pipe or socket, expected a file; leave it out of the folder")


def _wanted(path: Path, top: Path, include: Sequence[str]) -> bool:
    below = path.relative_to(top).as_posix()
    return not include or any(fnmatchcase(below, wish) or fnmatchcase(path.name, wish) for wish in include)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


# --------------------------------------------------------------------- folders that datasets.save_to_disk wrote


def _saved_dataset(folder: Path, names: list[str]) -> list[str] | None:
    """The data files of a saved dataset, in its own order; None for any other folder."""
    if "state.json" not in names or not any(name.endswith(".arrow") for name in names):
        return None
    state = _read_json(folder / "state.json")
    if state.get("_indices_data_files"):
        raise InputError(f"{folder}: the dataset keeps its order in a file apart; save it after flatten_indices()")
    files = state.get("_data_files")
    listed = [entry.get("filename") for entry in files if isinstance(entry, dict)] if isinstance(files, list) else []
    for name in listed:
        if name not in names:
            raise InputError(
                f"{folder / 'state.json'}: data file: got {name!r}, which is not in the folder; copy it anew"
            )
    return [str(name) for name in listed]


def _holds_splits(folder: Path, names: list[str]) -> bool:
    return any((folder / name / "state.json").is_file() for name in names)


def _refuse_splits(files: list[Path]) -> None:
    """A saved DatasetDict holds train and test side by side: to take both in silence is to train on the test."""
    chosen: dict[Path, set[str]] = {}
    for folder in {parent for file in files for parent in (file.parent.parent, file.parent)}:
        if (folder / _SPLITS).is_file():
            splits = _read_json(folder / _SPLITS).get("splits")
            inside = {file.relative_to(folder).parts[0] for file in files if file.is_relative_to(folder)}
            chosen[folder] = inside & set(splits if isinstance(splits, list) else ())
    for folder, names in chosen.items():
        if len(names) > 1:
            raise InputError(
                f"{folder}: got the splits {', '.join(sorted(names))} of one dataset, expected one; "
                f"give the folder of one split ({folder / min(names)}) or choose with --include"
            )


def _read_json(path: Path) -> dict[str, object]:
    with naming(path, "read"):
        data = path.read_bytes()
    try:
        value = json.loads(data)
    except ValueError as error:
        raise InputError(
            f"{path}: content: got no JSON ({error}), expected an object; save the dataset anew"
        ) from error
    return value if isinstance(value, dict) else {}
