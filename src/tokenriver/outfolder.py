"""A folder that one run writes in one go: whose it is while it is written, and whether it is complete already.

The plan, everything that determines the result, lies in the hidden folder while the run is at work and in the
manifest's options when it is done. A run that was killed is begun anew by the same plan.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from tokenriver import files
from tokenriver.buildplan import BAD_ROWS_NAME
from tokenriver.errors import InputError, MismatchError
from tokenriver.manifest import BUILD_FOLDER, MANIFEST_NAME, Manifest, read_manifest

LOCK_NAME = "lock"
STAYS = (LOCK_NAME, BAD_ROWS_NAME)
"""What may lie in the hidden folder of a run that failed."""


def begin(out: Path, path: Path, plan: Mapping[str, Any], what: str) -> None:
    """Say in `path`, a file of the hidden folder, what is being written; refuse a folder in which somebody else's files
    lie, or an unfinished run (a `what`) by another plan."""
    content = orjson.dumps(plan, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2)
    if path.exists():
        if path.read_bytes() != content:
            raise MismatchError(f"{out}: holds an unfinished {what} with other options; remove it or choose another")
        return
    strangers = [name for name in files.list_folder(out) if name != BUILD_FOLDER]
    others = [n for n in files.list_folder(path.parent) if n not in (*STAYS, files.temporary_name(path).name)]
    if strangers or others:
        raise InputError(f"{out}: got a folder with {(strangers or others)[0]} in it, expected an empty or a new one")
    files.write_atomic(path, content)


def complete(out: Path, format: str, plan: Mapping[str, Any], *, last: Sequence[str]) -> Manifest | None:
    """The corpus that lies in the folder already, if it is the very one asked for, None if there is none; MismatchError
    for another. `last` are the files of the hidden folder that go last."""
    if not (out / MANIFEST_NAME).exists():
        return None
    found = read_manifest(out)
    if found.format != format or dict(found.options) != plan:
        raise MismatchError(f"{out}: holds another corpus; choose another folder")
    if (out / BUILD_FOLDER).is_dir():
        # it was committed and killed before all was on the disk and tidied up
        files.sync_folder(out)
        files.remove_folder(out / BUILD_FOLDER, last=last)
    return found
