import importlib
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tokenriver as tr
from small_corpora import Documents, make_corpus
from tokenriver import hashes as hashes_module
from tokenriver.corpus import Corpus, open_corpus
from tokenriver.errors import FormatError, MismatchError
from tokenriver.hashes import hash_documents
from tokenriver.leaks import Leaks, leaks
from tokenriver.types import Ids

EOS = 50256
leaks_module = importlib.import_module("tokenriver.leaks")  # the package's door has the function of this name


def naive(mine: Documents, theirs: Documents) -> list[tuple[int, int]]:
    """(document, first of the others that equals it), control ids at either end left out."""
    stripped = [strip(document) for document in theirs]
    return [(i, stripped.index(strip(d))) for i, d in enumerate(mine) if strip(d) and strip(d) in stripped]


def strip(document: Sequence[int]) -> tuple[int, ...]:
    ids = list(document)
    if ids[:1] == [EOS]:
        del ids[0]
    if ids[-1:] == [EOS]:
        del ids[-1]
    return tuple(ids)


def pairs(found: Leaks) -> list[tuple[int, int]]:
    return list(zip(found.documents.tolist(), found.others.tolist(), strict=True))


def made(folder: Path, shards: Sequence[Documents]) -> Corpus:
    make_corpus(folder, {"train": shards})
    return open_corpus(folder)


IDS = st.sampled_from([0, 1, 7, EOS])
DOCUMENTS = st.lists(st.lists(IDS, min_size=1, max_size=6), min_size=1, max_size=9)
SHARDS = st.lists(DOCUMENTS, min_size=1, max_size=3)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mine=SHARDS, theirs=SHARDS, chunk=st.integers(1, 9), batch=st.integers(1, 5), piece=st.integers(1, 4))
@pytest.mark.parametrize("collide", [False, True])
def test_what_lists_find(
    collide: bool, mine: list[Documents], theirs: list[Documents], chunk: int, batch: int, piece: int, memory: Path
) -> None:
    """Wherever stretches of the river end, and even if all hashes were equal."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in (
            (hashes_module, "CHUNK", chunk),
            (hashes_module, "BATCH", batch),
            (leaks_module, "PIECE", piece),
            (leaks_module, "TOGETHER", 3 * piece),
        ):
            patch.setattr(module, name, value)
        if collide:
            patch.setattr(hashes_module, "_mixed", no_hash)
        shutil.rmtree(memory / "pair", ignore_errors=True)
        a, b = made(memory / "pair" / "a", mine), made(memory / "pair" / "b", theirs)
        found = leaks(a, b)
        flat = [document for shard in mine for document in shard]
        others = [document for shard in theirs for document in shard]
        assert pairs(found) == naive(flat, others)
        sizes = [len(strip(document)) for document in flat]
        assert (found.num_documents, found.num_tokens) == (sum(size > 0 for size in sizes), sum(sizes))
        assert found.num_others == sum(bool(strip(document)) for document in others)
        assert found.empty == sum(not strip(document) for document in (*flat, *others))
        assert found.leaked_tokens == sum(sizes[i] for i in found.documents.tolist())
        assert found.distinct == len({strip(flat[i]) for i in found.documents.tolist()})
        assert pairs(leaks(b, a)) == naive(others, flat)


def no_hash(places: np.ndarray, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros_like(places), np.zeros_like(places)


def test_hashes_depend_on_ids_and_places_alone(tmp_path: Path) -> None:
    documents = [[1, 2, 3, EOS], [3, 2, 1], [1, 2], [2, 1], [1, 2, 3], [EOS, 1, 2, 3], [0, 1, 2, 3], [1, 2, 3, 0]]
    (one,) = hash_documents(made(tmp_path / "a", [documents]), {EOS})
    words = list(zip(one.high.tolist(), one.low.tolist(), strict=True))
    assert [words.index(word) for word in words] == [0, 1, 2, 3, 0, 0, 6, 7]
    assert one.sizes.tolist() == [3, 3, 2, 2, 3, 3, 4, 4]
    assert len({word for pair in words for word in pair}) == 12


def test_no_two_of_many_documents_hash_alike(tmp_path: Path) -> None:
    dice = np.random.default_rng(1)
    documents = np.unique(dice.integers(0, 3, (12_000, 12)), axis=0)
    (one, *_) = hash_documents(made(tmp_path / "a", [documents[:6_000].tolist()]), {EOS})
    assert len(np.unique(one.high)) == len(np.unique(one.low)) == 6_000


def test_framing_format_and_split_do_not_matter(tmp_path: Path) -> None:
    texts = [f"document {i % 40} of some" for i in range(60)]
    rows = tmp_path / "rows.txt"
    rows.write_text("\n".join(texts))
    for framing in ("eos-after", "eos-before", "none"):
        tr.build(rows, tmp_path / framing, tokenizer="byte", separator="\n", framing=framing, val_tokens=200)
    train, val = (open_corpus(tmp_path / "eos-after", split=split) for split in ("train", "val"))
    found = tr.leaks(val, train)
    assert len(found) == val.num_documents
    assert [train.source(i)[1] - val.source(j)[1] for j, i in pairs(found)] == [40] * len(found)
    assert found.share == 1.0
    tr.convert(tmp_path / "none", tmp_path / "other", format="megatron")
    for path in (tmp_path / "eos-before", tmp_path / "other"):
        other = tr.leaks(open_corpus(path, split="val"), train)
        assert len(other) == other.num_documents > 5


def test_documents_cut_by_shards_are_whole(tmp_path: Path) -> None:
    corpus = made(tmp_path / "a", [[[5] * 30 + [EOS], [6] * 50 + [EOS]], [[7] * 40, [6] * 50]])
    tr.convert(tmp_path / "a", tmp_path / "b", format="llmc", shard_tokens=17)
    assert pairs(leaks(corpus, open_corpus(tmp_path / "b"))) == [(0, 0), (1, 1), (2, 2), (3, 1)]


def test_an_id_parts_documents_of_a_bare_file(tmp_path: Path) -> None:
    np.array([1, 2, EOS, 3, EOS, 1, 2, EOS], np.uint16).tofile(tmp_path / "train.bin")
    corpus = made(tmp_path / "a", [[[1, 2], [4]]])
    bare = open_corpus(tmp_path / "train.bin", dtype="uint16")
    with pytest.raises(FormatError, match=r"train.bin: got a nanogpt corpus without document bounds, expected them"):
        leaks(corpus, bare)
    assert pairs(leaks(open_corpus(tmp_path / "train.bin", dtype="uint16", eos_id=EOS), corpus)) == [(0, 0), (2, 0)]


def test_other_tokenizers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some text")
    tr.build(tmp_path / "a.txt", tmp_path / "bytes", tokenizer="byte")
    with pytest.raises(MismatchError, match="tokenizer: got gpt2 and byte"):
        leaks(made(tmp_path / "a", [[[1, 2]]]), open_corpus(tmp_path / "bytes"))


def test_progress_counts_ids(tmp_path: Path) -> None:
    a, b = made(tmp_path / "a", [[[1, 2, EOS], [4]]]), made(tmp_path / "b", [[[1, 2, EOS]]])
    told: list[tuple[int, int]] = []
    leaks(a, b, progress=lambda done, total: told.append((done, total)))
    assert told[-1][1] == 2 * 3 + 4
    assert [done for done, _ in told] == sorted(done for done, _ in told)
