"""The hidden folder in which an unfinished build lies: its plan, its lock, and what may happen to it.

Whatever is found there after a kill has one meaning: no plan, nothing of use; a plan that the corpus names, a build
that was committed and not yet cleaned up; any other plan, a build to go on with, if the same is asked for.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from tokenriver.buildplan import BAD_ROWS_NAME, BuildPlan, plans_of
from tokenriver.defaults import CHARACTERS_FILE
from tokenriver.errors import FormatError, InputError, MismatchError
from tokenriver.files import (
    list_folder,
    make_folder,
    naming,
    remove,
    remove_folder,
    sync_folder,
    write_atomic,
)
from tokenriver.locks import hold_lock
from tokenriver.manifest import BUILD_FOLDER, Manifest
from tokenriver.textdigests import SUFFIX

PLAN_NAME = "plan.json"
LOCK_NAME = "lock"
FAILED_NAME = "failed.json"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other builds out of the hidden folder while this one works in it."""
    with hold_lock(folder / LOCK_NAME) as held:
        if not held:
            raise InputError(f"{folder}: another build is at work here; wait for it or choose another folder")
        yield


def remove_build_folder(folder: Path, *, hands: int = 1) -> None:
    """Remove the hidden folder; the plan and the lock go last, so that a rerun knows what it sees at any moment. The
    other files by so many hands at once: to take back the room of large files keeps some disks waiting."""
    last = (PLAN_NAME, LOCK_NAME)
    if hands > 1:
        with ThreadPoolExecutor(hands) as pool:
            list(pool.map(remove, [folder / name for name in list_folder(folder) if name not in last]))
    remove_folder(folder, last=last)


def open_build_folder(out: Path, plan: BuildPlan, before: Manifest | None) -> Path:
    """The hidden folder, with this plan in it; MismatchError if another plan lies there unfinished."""
    folder = out / BUILD_FOLDER
    path = folder / PLAN_NAME
    base = before.fingerprint if before is not None else ""
    content = {**plan.content, "base": base}
    if path.exists():
        found = _read_plan(path)
        _compare(out, found, content, _failed(folder))
        if found == content:
            return folder
    elif before is None:
        _refuse_strangers(out, plan.content["options"]["name"])
    _remove_begun(out, plan.content["options"]["name"])
    make_folder(folder)
    write_atomic(path, orjson.dumps(content, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2))
    return folder


def _remove_begun(out: Path, name: str) -> None:
    """Remove what a killed build of another plan had begun to write: this plan may have fewer shards."""
    for file in list_folder(out):
        if file.startswith((f".{name}_train_", f".{name}_val_")) and file.endswith(".tmp"):
            remove(out / file)


def forget_units(folder: Path) -> None:
    """Clear the hidden folder of a build that found nothing, so that other options may try; its bad rows stay."""
    for name in list_folder(folder):
        if name not in (BAD_ROWS_NAME, LOCK_NAME):
            remove(folder / name)


def clean_finished(out: Path, before: Manifest) -> None:
    """Finish what a build that was committed could not do before it was killed: the names on the disk, the hidden
    folder removed."""
    folder = out / BUILD_FOLDER
    if not folder.is_dir():
        return
    sync_folder(out)
    with hold_lock(folder / LOCK_NAME) as held:
        if held and _is_finished(folder / PLAN_NAME, before):
            remove_build_folder(folder)


def _is_finished(path: Path, before: Manifest) -> bool:
    """Without its plan a hidden folder holds nothing of use."""
    if not path.exists():
        return True
    found = _read_plan(path)
    found.pop("base", None)
    return BuildPlan(found).digest in plans_of(before)


def _read_plan(path: Path) -> dict[str, Any]:
    plan = _read_json(path)
    if not isinstance(plan, dict) or set(plan) != {"options", "tokenizer", "inputs", "base"}:
        raise FormatError(f"{path}: got no plan of a build, expected one; remove {path.parent} to begin anew")
    return plan


def _read_json(path: Path) -> object:
    """What a file of ours holds; None if it is damaged."""
    with naming(path, "read"):
        data = path.read_bytes()
    try:
        found: object = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return found


def _refuse_strangers(out: Path, name: str) -> None:
    """A first build must not replace files that it did not write."""
    taken = [
        f
        for f in (list_folder(out) if out.is_dir() else [])
        if f in (BAD_ROWS_NAME, CHARACTERS_FILE)
        or f.startswith((f"{name}_train_", f"{name}_val_"))
        or (f.startswith(f"{name}_") and f.endswith(SUFFIX))
    ]
    if taken:
        raise InputError(f"{out / taken[0]}: belongs to no corpus; remove it, or choose another folder or name")


def _failed(folder: Path) -> set[str]:
    """Inputs that could not be read last time: they may have been replaced."""
    path = folder / FAILED_NAME
    found = _read_json(path) if path.exists() else None
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def _compare(out: Path, old: Mapping[str, Any], new: Mapping[str, Any], may_differ: set[str]) -> None:
    start = f"{out}: an unfinished build lies here"
    cure = f"repeat it unchanged, choose another folder, or remove {out / BUILD_FOLDER} to begin anew"
    for name, value in new["options"].items():
        if old["options"].get(name) != value:
            raise MismatchError(f"{start}: {name}: got {value!r}, expected {old['options'].get(name)!r}; {cure}")
    for name in ("tokenizer", "base"):
        if old[name] != new[name]:
            raise MismatchError(f"{start}: {name}: got {new[name][:16]!r}, expected {old[name][:16]!r}; {cure}")
    before = {entry["path"]: entry for entry in old["inputs"]}
    after = {entry["path"]: entry for entry in new["inputs"]}
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path) and path not in may_differ:
            what = "is new" if path not in before else "is missing" if path not in after else "has changed"
            raise MismatchError(f"{start}: input {path!r} {what} since it was begun; {cure}")
