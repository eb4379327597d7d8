"""Is what arrived what was wanted?"""

from tokenriver import digests
from tokenriver.errors import InputError, MismatchError
from tokenriver.wire import Download, shown

PAGE = 1024
"""Bytes in which a page for people shows itself."""


def check_present(wanted: Download) -> None:
    """A file that is there already; MismatchError if it is another."""
    size = wanted.path.stat().st_size
    if wanted.size is not None and size != wanted.size:
        raise MismatchError(f"{wanted.path}: size: got {size} bytes, expected {wanted.size}; remove it and run again")
    if wanted.sha256 is not None and digests.sha256_file(wanted.path) != wanted.sha256:
        raise MismatchError(f"{wanted.path}: sha256: got another than {wanted.sha256}; remove it and run again")


def is_right(wanted: Download, sha256: str) -> bool:
    """Is the digest the one that was wanted, if one was?"""
    return wanted.sha256 is None or wanted.sha256 == sha256


def check_size(wanted: Download, size: int | None) -> None:
    """The size that a server promises or has sent; MismatchError if another was wanted."""
    if size is not None and wanted.size is not None and size != wanted.size:
        raise MismatchError(
            f"{shown(wanted.url)}: size: got {size} bytes, expected {wanted.size}; the file has changed there: try "
            "another --base-url, or correct the recipe"
        )


def refuse_page(wanted: Download, head: bytes) -> None:
    """Servers give pages for people, and stores of large files their pointers, under the name of the data."""
    text = head[:PAGE].lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html")) and not wanted.path.name.endswith((".html", ".htm")):
        raise InputError(f"{shown(wanted.url)}: got a web page, expected data; check the address in a browser")
    if head.startswith(b"version https://git-lfs.github.com/spec/"):
        raise InputError(
            f"{shown(wanted.url)}: got a pointer of Git LFS, expected data; take the address of the download itself"
        )
