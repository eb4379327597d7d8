"""Files fetched from a server that misbehaves: the bytes are the right ones, or there is no file and one clear line."""

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopback import Served, Web, serving
from scripted_store import Scripted
from small_builds import QuickDisk
from tokenriver import downloading, files, finishing, partfile, registry, room
from tokenriver.downloading import DownloadReport, fetch
from tokenriver.errors import InputError, LimitError, MismatchError, MissingPackageError
from tokenriver.locks import hold_lock
from tokenriver.wire import Access, Download, shown

DATA = np.random.default_rng(1).bytes(300_000)


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setattr(files, "system", QuickDisk())
    with serving() as made:
        yield made


def get(
    *wanted: Download,
    slept: list[float] | None = None,
    progress: downloading.Progress | None = None,
    note: downloading.Note | None = None,
) -> DownloadReport:
    """Fetch without waiting; `slept` collects the waits."""
    sleep = ([] if slept is None else slept).append
    return fetch(wanted, access=Access(), sleep=sleep, progress=progress, note=note)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_many_files_come_whole_and_a_second_call_asks_nothing(web: Web, tmp_path: Path) -> None:
    bodies = {f"f{n}.bin": DATA[n * 1000 : n * 3000 + 1] for n in range(30)}
    wanted = [Download(web.put(name, body), tmp_path / name, len(body), sha(body)) for name, body in bodies.items()]
    seen: list[tuple[int, int]] = []
    report = get(*wanted, progress=lambda done, total: seen.append((done, total)))
    assert {name: (tmp_path / name).read_bytes() for name in bodies} == bodies
    whole = sum(map(len, bodies.values()))
    assert report == DownloadReport(30, 30, whole, 0, 0)
    assert seen[-1] == (whole, whole)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert names(tmp_path) == sorted(bodies)
    before = len(web.asked)
    assert get(*wanted) == DownloadReport(30, 0, 0, 0, 0)
    assert len(web.asked) == before


def test_few_files_wait_for_the_disk_at_once(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lots: list[int] = []

    def slow(parts: Sequence[partfile.PartFile]) -> None:
        lots.append(len(parts))
        time.sleep(0.005)
        partfile.commit(parts)

    monkeypatch.setattr(finishing, "MOST", 3)
    monkeypatch.setattr(finishing, "commit", slow)
    assert get(*(Download(web.put(f"{n}", b"abc"), tmp_path / f"{n}") for n in range(40))).fetched_files == 40
    assert sum(lots) == 40
    assert 1 < max(lots) <= 3
    assert len(names(tmp_path)) == 40


def test_an_empty_file_and_one_without_a_length(web: Web, tmp_path: Path) -> None:
    empty = Download(web.put("empty", b""), tmp_path / "empty")
    chunked = Download(web.put("chunked", DATA, {"chunked": True}), tmp_path / "chunked")
    assert get(empty, chunked).fetched_files == 2
    assert (tmp_path / "empty").read_bytes() == b""
    assert (tmp_path / "chunked").read_bytes() == DATA


def test_a_cut_connection_is_taken_up_where_it_broke(web: Web, tmp_path: Path) -> None:
    tricks: list[dict[str, Any]] = [{"cut": 100_000}, {"cut": 50_000}, {"status": 503}, {"status": 500}, {"cut": 0}]
    url = web.put("a.bin", DATA, *tricks)
    slept: list[float] = []
    notes: list[str] = []
    report = get(Download(url, tmp_path / "a.bin"), slept=slept, note=notes.append)
    assert (tmp_path / "a.bin").read_bytes() == DATA
    assert report == DownloadReport(1, 1, len(DATA), 0, 5)
    assert web.ranges("a.bin") == [None, "bytes=100000-", *["bytes=150000-"] * 4]
    # tries that bring bytes start the waits anew; a wait is slept in seconds
    assert slept == [1.0] * (1 + 1 + 2 + 4 + 8)
    assert len(notes) == 5
    assert notes[2].endswith("the server said 503 (Service Unavailable); trying again in 2 s")


def test_what_a_failed_call_kept_is_taken_up_by_the_next(web: Web, tmp_path: Path) -> None:
    stops = [{"status": 503} for _ in range(downloading.TRIES)]
    wanted = Download(web.put("a.bin", DATA, {"cut": 100_000}, *stops), tmp_path / "a.bin")
    with pytest.raises(InputError, match=r"503 .* after 6 tries; 100000 bytes are kept, run the same command later"):
        get(wanted)
    assert names(tmp_path) == [".a.bin.part", ".a.bin.part.journal"]
    assert get(wanted) == DownloadReport(1, 1, 200_000, 1, 0)
    assert (tmp_path / "a.bin").read_bytes() == DATA
    assert names(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("change", ["tag", "size", "ranges", "weak", "untagged"])
def test_another_version_begins_anew(web: Web, tmp_path: Path, change: str) -> None:
    new = DATA[::-1] if change != "size" else DATA[::-1][:200_000]
    later = Served(new, '"2"' if change == "tag" else '"1"')
    first: dict[str, Any] = {"cut": 100_000}
    then: dict[str, Any] = {"serve": later} | ({"ranges": False} if change == "ranges" else {})
    tags = {"weak": 'W/"1"', "untagged": None}
    if change in tags:
        later = Served(new, tags[change])
        then = {"serve": later}
    wanted = Download(web.put("a.bin", DATA, first, then, tag=tags.get(change, '"1"')), tmp_path / "a.bin")
    get(wanted)
    assert (tmp_path / "a.bin").read_bytes() == new


def test_a_file_without_tag_goes_on_where_its_digest_is_known(web: Web, tmp_path: Path) -> None:
    url = web.put("a.bin", DATA, {"cut": 100_000}, tag=None)
    get(Download(url, tmp_path / "a.bin", sha256=sha(DATA)))
    assert web.ranges("a.bin") == [None, "bytes=100000-"]
    dated = web.put("b.bin", DATA, {"cut": 100_000}, tag=None, Last_Modified="Thu, 01 Jan 2026 00:00:00 GMT")
    get(Download(dated, tmp_path / "b.bin"))
    assert web.ranges("b.bin") == [None, "bytes=100000-"]
    assert (tmp_path / "a.bin").read_bytes() == (tmp_path / "b.bin").read_bytes() == DATA


def test_a_part_that_was_meddled_with_is_fetched_anew(web: Web, tmp_path: Path) -> None:
    stops = [{"status": 503} for _ in range(downloading.TRIES)]
    wanted = Download(web.put("a.bin", DATA, {"cut": 100_000}, *stops), tmp_path / "a.bin", sha256=sha(DATA))
    with pytest.raises(InputError, match="503"):
        get(wanted)
    part = tmp_path / ".a.bin.part"
    part.write_bytes(b"x" + part.read_bytes()[1:])
    assert get(wanted).fetched_bytes == 200_000 + 300_000
    assert (tmp_path / "a.bin").read_bytes() == DATA


@pytest.mark.parametrize(
    "journal", [b"", b"{}\n", b"no json\n", b'{"size":300000,"tag":"\\"1\\""}\n{"bytes":999999}\n', None]
)
def test_a_part_that_nothing_vouches_for_is_forgotten(web: Web, tmp_path: Path, journal: bytes | None) -> None:
    (tmp_path / ".a.bin.part").write_bytes(b"x" * 1000)
    if journal is not None:
        (tmp_path / ".a.bin.part.journal").write_bytes(journal)
    get(Download(web.put("a.bin", DATA), tmp_path / "a.bin"))
    assert (tmp_path / "a.bin").read_bytes() == DATA
    assert names(tmp_path) == ["a.bin"]


def test_bytes_behind_the_last_journal_line_are_not_trusted(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a loss of power the end of a part may hold anything: it is fetched again."""
    stops = [{"status": 503} for _ in range(downloading.TRIES)]
    wanted = Download(web.put("a.bin", DATA, {"cut": 100_000}, *stops), tmp_path / "a.bin")
    with pytest.raises(InputError, match="503"):
        get(wanted)
    with (tmp_path / ".a.bin.part").open("ab") as file:
        file.write(bytes(400_000))
    get(wanted)
    assert (tmp_path / "a.bin").read_bytes() == DATA
    assert web.ranges("a.bin")[-1] == "bytes=100000-"


@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ({"Retry-After": "3"}, 3.0),
        ({"Retry-After": "Thu, 01 Jan 2026 00:00:07 GMT", "Date": "Thu, 01 Jan 2026 00:00:00 GMT"}, 7.0),
        ({"Retry-After": "soon"}, 2.0),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(web: Web, tmp_path: Path, headers: dict[str, str], waits: float, status: int) -> None:
    slept: list[float] = []
    url = web.put("a.bin", DATA, {"status": status, "headers": headers})
    get(Download(url, tmp_path / "a.bin"), slept=slept)
    assert sum(slept) == waits
    assert max(slept) <= 1.0


def test_a_wait_beyond_patience_is_an_error(web: Web, tmp_path: Path) -> None:
    url = web.put("a.bin", DATA, {"status": 429, "headers": {"Retry-After": "86400"}})
    slept: list[float] = []
    with pytest.raises(InputError, match=r"429 .*\(the server asks to wait 86400 s\)"):
        get(Download(url, tmp_path / "a.bin"), slept=slept)
    assert slept == []


def test_redirects_are_followed_but_not_to_files(web: Web, tmp_path: Path) -> None:
    there = web.put("there.bin", DATA)
    here = web.put("here.bin", b"", {"status": 302, "headers": {"Location": there}})
    get(Download(here, tmp_path / "a.bin"))
    assert (tmp_path / "a.bin").read_bytes() == DATA
    (tmp_path / "secret").write_text("secret")
    for target in (f"file://{tmp_path}/secret", "ftp://127.0.0.1/x"):
        url = web.put("bad.bin", b"", *[{"status": 302, "headers": {"Location": target}} for _ in range(9)])
        with pytest.raises(InputError, match="cannot be asked for"):
            get(Download(url, tmp_path / "b.bin"))
    loop = web.put("loop", b"", *[{"status": 302, "headers": {"Location": f"{web.url}/loop"}} for _ in range(99)])
    with pytest.raises(InputError, match="cannot be asked for"):
        get(Download(loop, tmp_path / "b.bin"))
    assert names(tmp_path) == ["a.bin", "secret"]


def test_a_server_without_encryption_is_not_asked_again(web: Web, tmp_path: Path) -> None:
    slept: list[float] = []
    with pytest.raises(InputError, match=r"cannot be asked for: .*SSL"):
        get(Download(web.put("a.bin", DATA).replace("http:", "https:"), tmp_path / "a.bin"), slept=slept)
    assert slept == []


@pytest.mark.parametrize("url", ["http://", "http://[::1/a.bin", "http://a:b/a.bin"])
def test_what_is_no_address_is_not_asked_for(tmp_path: Path, url: str) -> None:
    with pytest.raises(InputError, match=r"cannot be asked for: got .*, expected"):
        get(Download(url, tmp_path / "a.bin"))


def test_proxies_and_passwords_are_taken_where_they_may_be(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine data.invalid login me password word")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", web.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    web.files["http://data.invalid/a.bin"] = Served(DATA)
    far = Download("http://data.invalid/a.bin", tmp_path / "far.bin")
    near = Download(web.put("near.bin", DATA).replace("//", "//you:word@"), tmp_path / "near.bin")
    fetch([far, near], access=Access(trust_env=True), sleep=time.sleep, threads=1)
    assert [path for path, _ in web.asked] == ["http://data.invalid/a.bin", "/near.bin"]
    assert web.tokens == ["Basic " + b64encode(word).decode() for word in (b"me:word", b"you:word")]
    with pytest.raises(InputError, match="the connection failed"):
        get(replace(far, path=tmp_path / "other.bin"))


def test_redirects_out_of_https_are_refused() -> None:
    http = registry.load("remotes", "http")
    http.refuse_unencrypted(["http://a/x", "https://b/x", "http://c/x"])
    http.refuse_unencrypted(["https://a/x", "https://b/x"])
    for chain in (["https://a/x?s", "http://b/x"], ["https://a/x?s", "http://b/x", "https://c/x"]):
        with pytest.raises(InputError, match=r"^https://a/x: redirect: got one to an unencrypted address"):
            http.refuse_unencrypted(chain)


PAGE = b"\n<!DOCTYPE html><html>log in</html>"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"


@pytest.mark.parametrize(
    ("trick", "body", "kind", "what"),
    [
        ({"status": 404}, b"", InputError, r"got 404 \(Not Found\), expected a file; check the address"),
        ({"status": 410}, b"", InputError, "got 410"),
        ({"status": 401}, b"", InputError, r"got 401 .* accept them on its page and set HF_TOKEN"),
        ({"status": 403}, b"", InputError, "got 403"),
        ({"status": 418}, b"", InputError, "got 418"),
        ({"headers": {"Content-Type": "text/html; charset=utf-8"}}, b"data", InputError, "web page"),
        ({}, PAGE, InputError, "web page"),
        ({}, POINTER, InputError, "pointer of Git LFS"),
        ({"headers": {"Content-Encoding": "gzip"}}, b"data", InputError, r"packed in transit \(gzip\)"),
        ({"length": None}, b"data", InputError, "no length"),
        ({}, b"other data", MismatchError, "size: got 10 bytes, expected 4"),
        ({"chunked": True}, b"other data", MismatchError, "more than the 4 bytes"),
        ({"chunked": True}, b"dat", MismatchError, "size: got 3 bytes, expected 4"),
        ({}, b"dato", MismatchError, f"sha256: got {sha(b'dato')}, expected {sha(b'data')}"),
    ],
)
def test_what_is_no_such_file_is_told_and_leaves_nothing(
    web: Web, tmp_path: Path, trick: dict[str, Any], body: bytes, kind: type[Exception], what: str
) -> None:
    known: dict[str, Any] = {"size": 4, "sha256": sha(b"data")} if kind is MismatchError else {}
    url = web.put("a.jsonl", body, trick)
    with pytest.raises(kind, match=what) as caught:
        get(Download(url, tmp_path / "a.jsonl", **known))
    assert str(caught.value).startswith(url)
    assert names(tmp_path) == []


def test_a_promise_that_is_never_kept_ends(web: Web, tmp_path: Path) -> None:
    url = web.put("a.bin", b"short", *[{"length": 100} for _ in range(50)])
    with pytest.raises(InputError, match="after 6 tries; 5 bytes are kept"):
        get(Download(url, tmp_path / "a.bin"))
    assert not (tmp_path / "a.bin").exists()


def test_a_model_in_place_of_a_data_set_is_named(web: Web, tmp_path: Path) -> None:
    url = web.put("owner/name/resolve/main/a.jsonl", b"", *[{"status": 401}] * 9)
    with pytest.raises(InputError, match="a model repository, that of a dataset has datasets/ before the owner"):
        get(Download(url, tmp_path / "a.jsonl"))


def test_one_failure_stops_the_others_and_is_the_one_that_is_told(web: Web, tmp_path: Path) -> None:
    wanted = [Download(web.put(f"f{n}", DATA), tmp_path / f"f{n}") for n in range(40)]
    wanted[3] = replace(wanted[3], url=f"{web.url}/missing")
    with pytest.raises(InputError, match="missing: got 404"):
        get(*wanted)
    assert len(web.asked) < 40
    assert all(path.read_bytes() == DATA for path in tmp_path.glob("f*"))


@pytest.mark.parametrize(
    "trick", [{"cut": 1000, "hang": True}, {"cut": 1000, "hang": True, "headers": {"Connection": "close"}}]
)
def test_a_failure_elsewhere_ends_a_wait_for_a_server_that_says_nothing_more(
    web: Web, tmp_path: Path, trick: dict[str, Any]
) -> None:
    hangs = Download(web.put("a.bin", DATA, trick), tmp_path / "a.bin")
    silent = Download(web.put("b.bin", DATA, {"cut": 0, "hang": True, "length": 5}), tmp_path / "b.bin")
    fails = Download(web.put("c.bin", DATA, *[{"status": 503}] * 9), tmp_path / "c.bin")
    with pytest.raises(InputError, match=r"c.bin: the server said 503"):
        fetch([hangs, silent, fails], access=Access(), sleep=lambda seconds: web.hanging.wait())
    assert names(tmp_path) == [".a.bin.part", ".a.bin.part.journal"]


def test_a_failure_elsewhere_ends_a_wait_for_a_server_that_says_nothing(web: Web, tmp_path: Path) -> None:
    mute = Download(web.put("a.bin", DATA, {"mute": True}), tmp_path / "a.bin")
    fails = Download(web.put("b.bin", DATA, *[{"status": 503}] * 9), tmp_path / "b.bin")
    with pytest.raises(InputError, match=r"b.bin: the server said 503"):
        fetch([mute, fails], access=Access(), sleep=lambda seconds: web.hanging.wait())
    assert names(tmp_path) == []


def test_nobody_answers(tmp_path: Path) -> None:
    slept: list[float] = []
    with pytest.raises(InputError, match=r"the connection failed: .* after 6 tries; 0 bytes are kept"):
        get(Download("http://127.0.0.1:9/a.bin", tmp_path / "a.bin"), slept=slept)
    assert sum(slept) == 2 + 4 + 8 + 16 + 32
    assert names(tmp_path) == []


@pytest.mark.parametrize("url", ["a.bin", "ftp://h/a.bin", "hf://datasets/o/n/a.bin", "data:text/plain,x"])
def test_addresses_of_other_kinds_are_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(InputError, match="got no address of file, gcs, gs, http, https, s3"):
        get(Download(url, tmp_path / "a.bin"))


def test_secrets_in_an_address_are_not_shown() -> None:
    assert shown("https://me:word@host/a/b.bin?X-Signature=s#t") == "https://host/a/b.bin"


def test_a_token_goes_to_its_server_alone(web: Web, tmp_path: Path) -> None:
    with serving() as other:
        target = other.put("b.bin", DATA)
        url = web.put("a.bin", b"", {"status": 302, "headers": {"Location": target}})
        wanted = Download(url, tmp_path / "a.bin", token="hf_secret")
        assert "hf_secret" not in repr(wanted)
        get(wanted)
        assert (web.tokens, other.tokens) == (["Bearer hf_secret"], [None])


def test_two_for_one_place_and_two_at_once(web: Web, tmp_path: Path) -> None:
    wanted = Download(web.put("a.bin", DATA), tmp_path / "a.bin")
    with pytest.raises(InputError, match="wanted twice"):
        get(wanted, wanted)
    with hold_lock(partfile.part_name(wanted.path)), pytest.raises(InputError, match="by another process"):
        get(wanted)


def test_a_file_that_is_there_and_is_another_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"mine")
    others: list[dict[str, Any]] = [{"size": 5}, {"sha256": sha(b"other")}]
    for known in others:
        with pytest.raises(MismatchError, match="remove it and run again"):
            get(Download("http://127.0.0.1:9/a.bin", tmp_path / "a.bin", **known))
    assert (tmp_path / "a.bin").read_bytes() == b"mine"


def test_too_little_space_is_said_before_anything_is_written(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(QuickDisk):
        def free_bytes(self, folder: Path) -> int:
            return 1000

    monkeypatch.setattr(files, "system", Full())
    with pytest.raises(LimitError, match="free space: got 1000 bytes, expected 300000"):
        get(Download(web.put("a.bin", DATA), tmp_path / "a.bin"))
    assert names(tmp_path) == []


def test_the_disk_is_asked_for_room_once_in_a_while(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[int] = []

    class Small(QuickDisk):
        def free_bytes(self, folder: Path) -> int:
            asked.append(len(asked))
            return 1000 - 100 * len(asked)

    monkeypatch.setattr(files, "system", Small())
    monkeypatch.setattr(room, "MOST", 500)
    there = room.Room()
    for size, times in ((100, 1), (400, 1), (0, 1), (1, 2), (499, 2), (700, 3), (1, 4), (498, 4)):
        there.take(tmp_path / "a", size)
        assert len(asked) == times
    with pytest.raises(LimitError, match="a: free space: got 500 bytes, expected 501; free some"):
        there.take(tmp_path / "a", 501)
    (tmp_path / "b").mkdir()
    there.take(tmp_path / "b" / "c", 1)
    assert len(asked) == 6


def test_other_stores_of_fsspec(tmp_path: Path) -> None:
    (tmp_path / "there.bin").write_bytes(DATA)
    get(Download(f"file://{tmp_path}/there.bin", tmp_path / "here.bin"))
    assert (tmp_path / "here.bin").read_bytes() == DATA
    for name, what in (("missing", "no such file"), ("", "got a folder|no such file")):
        with pytest.raises(InputError, match=what):
            get(Download(f"file://{tmp_path}/{name}", tmp_path / "b.bin"))
    assert names(tmp_path) == ["here.bin", "there.bin"]


def test_a_store_without_a_wire(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(downloading.STORES, "memory", "store")
    disk = fsspec.filesystem("memory")
    disk.pipe("/bucket/a.bin", DATA)
    get(Download("memory://bucket/a.bin", tmp_path / "a.bin", len(DATA), sha(DATA)))
    assert (tmp_path / "a.bin").read_bytes() == DATA
    disk.rm("/bucket", recursive=True)


def test_a_store_whose_package_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(MissingPackageError, match=r"s3:// needs a package .*pip install 'tokenriver\[remote\]'"):
        get(Download("s3://bucket/a.bin", tmp_path / "a.bin"))
    assert names(tmp_path) == []


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("urllib3", "urllib3.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "tokenriver.remotes.http", raising=False)
    with pytest.raises(
        MissingPackageError, match=r"needs the package urllib3; run: pip install 'tokenriver\[remote\]'"
    ):
        get(Download("http://127.0.0.1:9/a.bin", tmp_path / "a.bin"))


# ---------------------------------------------------------------------------------------------- without a wire


@settings(max_examples=30)
@given(cuts=st.lists(st.integers(0, 400), max_size=5), size=st.integers(0, 2000), tag=st.sampled_from(["x", ""]))
def test_any_cuts_give_the_same_bytes(cuts: list[int], size: int, tag: str) -> None:
    store = Scripted(DATA[:size], list(cuts), tag)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "load", lambda kind, name: store)
        patch.setattr(files, "system", QuickDisk())
        path = Path(folder, "x")
        report = get(Download("http://nowhere/x", path))
        assert path.read_bytes() == DATA[:size]
        assert names(path.parent) == ["x"]
        assert report.fetched_bytes >= size
        assert report.fetched_bytes == size or not tag


KILLED = """
import sys, time
from pathlib import Path
from tokenriver import partfile
from tokenriver.downloading import fetch
from tokenriver.wire import Access, Download
partfile.KEEP_BYTES = 50_000
fetch([Download(sys.argv[1], Path(sys.argv[2]))], access=Access(), sleep=time.sleep)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_a_part_that_the_next_takes_up(web: Web, tmp_path: Path) -> None:
    url = web.put("a.bin", DATA, {"cut": 150_000}, *[{"status": 503, "headers": {"Retry-After": "300"}}] * 9)
    path = tmp_path / "a.bin"
    with subprocess.Popen([sys.executable, "-c", KILLED, url, str(path)]) as process:
        while len(web.asked) < 2 and process.poll() is None:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    assert not path.exists()
    web.files["/a.bin"].tricks.clear()
    report = get(Download(url, path))
    assert path.read_bytes() == DATA
    assert report.resumed == 1
    assert 0 < report.fetched_bytes < len(DATA)
