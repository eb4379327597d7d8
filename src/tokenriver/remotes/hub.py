"""The Hugging Face Hub: which files of a dataset's repository match a pattern, with sizes and digests."""

from fnmatch import fnmatchcase
from typing import Any

from huggingface_hub import HfFileSystem

from tokenriver.errors import InputError
from tokenriver.wire import Access

Listed = tuple[str, int | None, str | None]
"""(path in the repository, bytes, sha256)"""


def list_files(repository: str, revision: str, pattern: str, access: Access) -> list[Listed]:
    """The files of a dataset that match, sorted by path; a * stays inside one folder. InputError if there are none."""
    files: Any = HfFileSystem(endpoint=access.endpoint, token=access.token or False, skip_instance_cache=True)
    words = pattern.split("/")
    plain = next((i for i, word in enumerate(words) if any(mark in word for mark in "*?[")), len(words) - 1)
    top = "/".join([f"datasets/{repository}@{revision.replace('/', '%2F')}", *words[:plain]])
    name = f"hf://datasets/{repository}"
    try:
        found: dict[str, Any] = files.find(top, detail=True)
    except (OSError, ValueError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if isinstance(error, FileNotFoundError) or status in (401, 403, 404):
            raise InputError(
                f"{name}: found no such dataset, revision or folder ({'/'.join(words[:plain])!r} at {revision!r}); "
                "check the name, and that it is a dataset and no model; if it is private or has terms, set HF_TOKEN"
            ) from error
        said = " ".join(str(error).split())[:300]
        raise InputError(f"{name}: cannot be listed: {said}; check the network and the address") from error
    listed = [_row(path, repository, info) for path, info in found.items()]
    chosen = sorted(row for row in listed if _matches(row[0].split("/"), words))
    if not chosen:
        raise InputError(f"{name}: found {len(listed)} files, none of which matches {pattern!r}; check the pattern")
    return chosen


def _row(path: str, repository: str, info: dict[str, Any]) -> Listed:
    """The name is datasets/OWNER/NAME[@REVISION]/PATH."""
    below = path.removeprefix("datasets/").removeprefix(repository).partition("/")[2]
    large = info.get("lfs")
    return below, info.get("size"), str(large["sha256"]) if large else None


def _matches(path: list[str], words: list[str]) -> bool:
    return len(path) == len(words) and all(map(fnmatchcase, path, words))
