"""The peers' own libraries, each asked in the environment that scripts/peers made for it."""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from small_corpora import Documents, make_corpus
from tokenriver.convert import convert
from tokenriver.corpus import Corpus

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("TOKENRIVER_PEERS") or ROOT / ".venv-peers")

DOCUMENTS: Documents = [[7 * d + i * i % 61 for i in range(1 + (d * 37) % 90)] for d in range(200)]
"""Documents of 1 to 90 ids."""
EVEN: Documents = [[5 * d + i for i in range(16)] for d in range(100)]
"""Documents of 16 ids."""


def ask(peer: str, do: str, requests: Iterable[Mapping[str, Any]], work: Path) -> list[Any]:
    """What tests/interop/peers/peer_PEER.py answers to these requests to `do` something, with `work` as its home."""
    python = FOLDER / peer / "bin" / "python"
    if not python.exists():
        raise FileNotFoundError(f"{python}: make it with: make .venv-peers/.all")
    ran = subprocess.run(
        [python, ROOT / "tests" / "interop" / "peers" / "run.py", peer],
        input=json.dumps([{"do": do, **request} for request in requests], default=str),
        env={"PATH": os.environ["PATH"], "HOME": str(work), "TMPDIR": str(work), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    answers: list[Any] = json.loads(ran.stdout.splitlines()[-1])
    return answers


def converted(work: Path, format: str, shards: list[Documents], layout: str = "", dtype: str = "uint16") -> Path:
    """Shards of documents, all but the last of one length, in another format; the folder of the only split."""
    work.mkdir(exist_ok=True)
    at = work / str(len(list(work.iterdir())))
    make_corpus(at / "native", {"train": shards})
    tokens = None if len(shards) == 1 else len(flat(shards[0]))
    convert(at / "native", at / "out", format=format, layout=layout, dtype=dtype, shard_tokens=tokens)
    folder = at / "out" / "train"
    return folder if folder.is_dir() else at / "out"


def documents_of(corpus: Corpus) -> Documents:
    """All documents of a corpus."""
    assert corpus.num_documents is not None
    return [corpus.document(i).tolist() for i in range(corpus.num_documents)]


def flat(documents: Documents) -> list[int]:
    return [i for document in documents for i in document]
