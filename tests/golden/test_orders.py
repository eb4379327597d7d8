"""The orders of other loaders are theirs, id for id: against batches that their own code gave.

The toy shards are ids by their place, so llm.c's batches are held here as digests of all x and all y of a run.
"""

import hashlib
import json
from typing import Any

import numpy as np
import pytest

import naive_replays
from golden_data import golden
from rivers import ArrayRiver, HugeRiver, ShardedRiver
from tokenriver.corpus import open_corpus
from tokenriver.errors import InputError, LimitError
from tokenriver.loader import Loader
from tokenriver.types import IGNORE, Int64, River

TOY = (1000, 1537, 801)
# sizes, order, rank, world size, batches, of x and of y the sha256 of all of them as little-endian int32
LLMC = {
    "toy_seq_w1_r0": (
        *("llmc-sequential", 0, 1, 215),
        "a43b0488e0da153e46ec133dc7c0b7eefd3ad08dbefc4e3e32428eccbd2082ae",
        "7ae49d67342b4501d0456025c372c3a67eaca5abb4561094d8b4aff8bb5d9703",
    ),
    "toy_seq_w2_r0": (
        *("llmc-sequential", 0, 2, 110),
        "a44d63bfa67c8ab64b27415c1328fc3b21951b2929a0b5f61555d7790eb102d1",
        "2e9dbf21d30827e90b7d06db20877fbcf17748118b794a7dcc49d9f3bb42d47b",
    ),
    "toy_seq_w2_r1": (
        *("llmc-sequential", 1, 2, 110),
        "71eed475e658f944c1d6ad772639c4ae7b7c31d1375628e7cc2f447bc55b40a6",
        "53e95277fe7eedc90ec369b4d4d80ef9ac8e525e8643c83340c4da643bc82370",
    ),
    "toy_shuf_w1_r0": (
        *("llmc", 0, 1, 330),
        "304467ecfe38e130e25e5c99b4d6071b6e4647c817594bd45a2c7610b7ebee74",
        "5ce987ca492b043f2b2c23f18dce3f001ae5e72aa3e629787acf8aa98d20d45d",
    ),
    "toy_shuf_w2_r0": (
        *("llmc", 0, 2, 160),
        "ea43a54fa0a9888ef7417564d37f6463224468c9b56aa679a9c6232b000a9350",
        "c8bf384ce7633ca6d9ff3077c7d1d137f87cab060161f36762b4662a3862594a",
    ),
    "toy_shuf_w2_r1": (
        *("llmc", 1, 2, 160),
        "35025cc466446096e6c04d7836d854f7f5d60b8638e628687b6c89e278c0e94b",
        "866e8fbb297b8430e2e93a6021419d2c3ec4321c7212f0633c2930fe5c7e429e",
    ),
    "toy_shuf_w3_r0": (
        *("llmc", 0, 3, 80),
        "d0f9161caf5d8a5c867a0353e126f42d1ef7e7b010699ba479d18a7a53fbc86d",
        "919beee13b1782f4482f14fb6a2dbc3a7b38cf49b8df2485b437b3afe98ca1e1",
    ),
    "toy_shuf_w3_r1": (
        *("llmc", 1, 3, 80),
        "5eb982018560d587a7e71e53610bcd758088bfe42e3bed1948ec640b8acea62b",
        "1f9b3ef82a10ee07f228116f09c9b066ef7a4695b10923095918eedde0f95f5e",
    ),
    "toy_shuf_w3_r2": (
        *("llmc", 2, 3, 80),
        "47640c1b76a9472bd8b9251155f944ba943cfb500a6869c6783f66631c101684",
        "167413823bbfd735fb1970c6e356e99245a688746e6c1184978d733ccb70f169",
    ),
}
# a run taken up again before a batch of its batches, and the digests of all of them
RESUMED = {
    "toy_seq_w2_r1": (
        *(20, 60),
        "33c85c64195490c5216384e047763435f2c6bef6ff2c8a9271b0c3e5a79d9e2a",
        "2e73a68c445f7a8ed60a4c58177aa22c013b72fdac71f5238d2c19e53ef64c4a",
    ),
    "toy_shuf_w2_r1": (
        *(70, 120),
        "29f073df8828c91035a7f5294c0809916103b6131b26fc1447f878a07e41c291",
        "3ebb0b7eb937296da68e2df0894cc0898c2828328c13c02f38ab581137e4ffe6",
    ),
}
# a file of 74 global batches: those of two epochs and a bit, in llm.c's order for B = 4, T = 1024
ONE_SHARD = [
    *(29, 58, 10, 4, 11, 25, 63, 56, 72, 65, 16, 21, 17, 20, 57, 24, 53, 1, 35, 38, 73, 22, 8, 6, 50, 30, 45, 41, 34),
    *(66, 70, 43, 27, 0, 15, 28, 9, 55, 37, 13, 44, 7, 62, 67, 19, 39, 14, 48, 68, 59, 2, 49, 64, 54, 31, 23, 69, 3),
    *(60, 51, 61, 42, 40, 18, 33, 71, 32, 36, 5, 46, 26, 52, 47, 12),
    *(13, 26, 25, 21, 16, 53, 59, 51, 10, 8, 30, 36, 28, 2, 22, 29, 5, 43, 1, 20, 61, 3, 55, 32, 68, 66, 72, 24, 63),
    *(71, 0, 58, 69, 67, 6, 54, 62, 14, 34, 41, 18, 47, 12, 50, 27, 9, 38, 44, 46, 60, 64, 45, 52, 15, 40, 73, 49, 70),
    *(56, 48, 57, 42, 4, 7, 31, 19, 35, 23, 17, 37, 39, 65, 33, 11),
    *(70, 37, 16, 47, 36, 55, 66, 11, 33, 43, 1, 9),
]


def take(loader: Loader, count: int) -> tuple[Int64, Int64]:
    """(count, B, T) inputs and targets of the next batches."""
    got = [(b.input_ids.copy(), b.targets.copy()) for _, b in zip(range(count), loader, strict=False)]
    inputs, targets = zip(*got, strict=True)
    return np.array(inputs), np.array(targets)


def firsts(loader: Loader, count: int) -> list[list[int]]:
    return [batch.sample_ids.tolist() for _, batch in zip(range(count), loader, strict=False)]


def digests(*columns: Int64) -> list[str]:
    return [hashlib.sha256(column.astype("<i4").tobytes()).hexdigest() for column in columns]


def like_llmc(river: River, order: str, rank: int, world_size: int) -> Loader:
    options: dict[str, Any] = {"global_batch": 2 * world_size, "rank": rank, "world_size": world_size}
    return Loader(river, seq_len=16, order=order, prefetch=0, **options)


def read_json(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(golden(name).read_text(encoding="utf-8"))
    return found


# ---------------------------------------------------------------------------------------------- llm.c


@pytest.mark.parametrize("name", LLMC)
def test_llmc_on_the_toy_shards(name: str) -> None:
    order, rank, world_size, batches, x, y = LLMC[name]
    assert digests(*take(like_llmc(ShardedRiver(*TOY), order, rank, world_size), batches)) == [x, y]


@pytest.mark.parametrize("name", RESUMED)
def test_llmc_taken_up_again(name: str) -> None:
    order, rank, world_size = LLMC[name][:3]
    before, batches, x, y = RESUMED[name]
    whole = like_llmc(ShardedRiver(*TOY), order, rank, world_size)
    state: dict[str, Any] = whole.batch(before - 1).state
    resumed = like_llmc(ShardedRiver(*TOY), order, rank, world_size)
    resumed.load_state_dict(json.loads(json.dumps(state)))
    assert state["step"] == before
    parts = zip(take(whole, before), take(resumed, batches - before), strict=True)
    assert digests(*(np.concatenate(pair) for pair in parts)) == [x, y]


def test_llmc_on_one_shard() -> None:
    loader = Loader(ArrayRiver(305_260), seq_len=1024, global_batch=4, order="llmc", prefetch=0)
    assert loader.steps_per_epoch == 74
    assert [row[0] // 4096 for row in firsts(loader, len(ONE_SHARD))] == ONE_SHARD


def test_llmcs_files() -> None:
    cases = read_json("llmc/dataloader_cases.json")
    seen = 0
    for name, case in cases.items():
        if name.startswith("tiny"):
            continue
        corpus = open_corpus(str(golden("llmc/shards") / case["files"]))
        order, rank, world_size = ("llmc" if case["shuffle"] else "llmc-sequential"), case["rank"], case["world"]
        if "error" in case:
            with pytest.raises(LimitError, match="shard 0: got 65 ids, expected at least 97"):
                like_llmc(corpus, order, rank, world_size)
            continue
        assert (case["B"], case["T"]) == (2, 16)
        given = np.load(golden(f"llmc/{case['npz']}"), allow_pickle=False)
        inputs, targets = take(like_llmc(corpus, order, rank, world_size), case["batches"])
        assert (inputs == given["x"].reshape(inputs.shape)).all(), name
        assert (targets == given["y"].reshape(inputs.shape)).all(), name
        seen += 1
    assert seen == 16


# --------------------------------------------------------------------------------------------- nanoGPT

CHAR_TOKENS = 1_003_854
CROPS = {
    1337: [[102953, 291801, 951176, 582802], [999937, 635247, 240785, 351820], [439228, 138336, 3016, 424994]],
    1338: [[721444, 750332, 386642, 347356], [138809, 555614, 24747, 790180], [616221, 979926, 798458, 48382]],
}
# torch.randint(range, (count,)), one call after another, under seed 1337
DRAWS: list[tuple[int, list[int]]] = [
    (1003822, [102953, 291801, 951176, 582802]),
    (1003822, [999937, 635247, 240785, 351820]),
    (111508, [1922, 55562, 111484, 54672, 32085, 30054, 111130, 20594]),
    (65, [21, 34, 54, 0, 3, 21, 2, 55, 47, 1, 46, 10, 9, 39, 35, 44, 46, 24, 24, 9]),
    (2147483648, [1636677433, 88048020, 1588932168, 2042842695, 1561528155, 1739551428]),
    (4294967296, [1891940321, 604963718, 3522650100, 3855394293]),
    (8589934592, [3987478263, 2660935186, 4112099011, 8078835362, 3494290116, 7268180488]),
    (5, [4, 4, 2, 4, 0, 0, 0, 3, 3, 4]),
]


@pytest.mark.parametrize("seed", CROPS)
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_nanogpts_crops(seed: int, rank: int) -> None:
    """The original's seed is 1337 + rank."""
    sizes: dict[str, Any] = {"global_batch": 16, "rank": rank, "world_size": 4}
    loader = Loader(HugeRiver(CHAR_TOKENS), seq_len=32, **sizes, seed=seed - rank, order="nanogpt", prefetch=0)
    assert firsts(loader, 3) == CROPS[seed]


def test_the_naive_reference_draws_as_torch_does() -> None:
    """Of ranges that no corpus of this suite has; the law tests hold the order against it."""
    words = naive_replays.twister(1337)
    for size, values in DRAWS:
        assert [naive_replays.randint(words, size) for _ in values] == values


def test_nanogpts_batches() -> None:
    text = golden("inputs/tinyshakespeare.txt").read_text(encoding="utf-8")
    places = {letter: number for number, letter in enumerate(sorted(set(text)))}
    river = ArrayRiver([places[letter] for letter in text[: int(len(text) * 0.9)]])
    cases = read_json("nanogpt/get_batch_cases.json")
    for seed in CROPS:
        case = cases[f"char_seed{seed}_b4_t32"]
        loader = Loader(river, seq_len=32, global_batch=4, seed=seed, order="nanogpt", prefetch=0)
        inputs, targets = take(loader, len(case["starts"]))
        assert hashlib.sha256(inputs.astype("<i8").tobytes()).hexdigest() == case["sha256_x_int64le"]
        assert hashlib.sha256(targets.astype("<i8").tobytes()).hexdigest() == case["sha256_y_int64le"]


# ------------------------------------------------------------------------------------------------ HDF5

# windows of 64 of 4,978 ids, three a batch, numpy's seed 0: an epoch of 25 batches, in which two windows are dropped,
# and 15 batches of the next
ITERATED = [
    *(48, 74, 59, 54, 34, 26, 68, 33, 45, 69, 27, 60, 3, 42, 43, 7, 22, 41, 50, 38, 61, 53, 62, 56, 72, 6, 52, 70),
    *(4, 30, 49, 2, 28, 11, 23, 10, 31, 40, 57, 1, 32, 66, 14, 76, 19, 29, 63, 35, 18, 0, 75, 15, 5, 55, 16, 51, 20),
    *(71, 8, 13, 25, 37, 17, 24, 46, 39, 65, 58, 12, 36, 21, 9, 73, 67, 64),
    *(6, 33, 72, 38, 21, 4, 29, 71, 16, 28, 3, 19, 40, 36, 58, 64, 37, 22, 57, 76, 45, 60, 62, 32, 34, 74, 52, 63),
    *(43, 70, 11, 41, 67, 50, 55, 20, 25, 73, 59, 65, 27, 51, 69, 53, 1),
]
LESSON: dict[tuple[int, int, int], list[list[int]]] = {
    (8, 3, 0): [[216, 98, 194], [227, 107, 10], [66, 130, 124], [103, 235, 200], [212, 77, 122], [91, 149, 228]],
    (16, 4, 7): [[82, 38, 101, 166], [12, 18, 210, 137], [24, 93, 149, 14], [129, 54, 9, 22], [111, 107, 17, 61]],
    (64, 2, 123): [[13, 68], [22, 104], [68, 27], [9, 97]],
}


def test_the_iterators_windows() -> None:
    loader = Loader(ArrayRiver(4978), seq_len=64, global_batch=3, order="hdf5-iterator", prefetch=0)
    assert loader.steps_per_epoch == 25
    assert [row // 64 for rows in firsts(loader, 40) for row in rows] == ITERATED


def test_the_iterators_own_example() -> None:
    loader = Loader(ArrayRiver(1000), seq_len=10, global_batch=4, seed=1, order="hdf5-iterator", prefetch=0)
    inputs, targets = take(loader, 1)
    assert inputs[0, :, 0].tolist() == [920, 830, 320, 800]
    assert (targets == inputs + 1).all()


def test_the_iterators_files() -> None:
    corpus = open_corpus(golden("train_llm_from_scratch/pretrain_small_chunks.h5"))
    cases = read_json("train_llm_from_scratch/get_batch_iterator_cases.json")
    for name in ("batches_b4_t32_seed1234", "batches_b3_t64_seed0", "batches_b5_t7_seed42"):
        case = cases[name]
        sizes: dict[str, Any] = {"seq_len": case["context_length"], "global_batch": case["batch_size"]}
        loader = Loader(corpus, **sizes, seed=case["numpy_global_seed"], order="hdf5-iterator", prefetch=0)
        inputs, targets = take(loader, case["batches"])
        given = np.load(golden("train_llm_from_scratch") / case["npz"], allow_pickle=False)
        assert (inputs == given["x"]).all()
        assert (targets == given["y"]).all()


def test_fewer_windows_than_a_batch_are_a_batch_of_that_size() -> None:
    """The original shuffles before each short batch, the first included; so ours is one step behind."""
    with pytest.raises(LimitError, match=r"global_batch: got 8, expected 1 to 4, the windows of an epoch"):
        Loader(ArrayRiver(50), seq_len=12, global_batch=8, order="hdf5-iterator")
    loader = Loader(ArrayRiver(50), seq_len=12, global_batch=4, seed=1, order="hdf5-iterator", prefetch=0)
    loader.skip(1)
    assert firsts(loader, 3) == [[36, 0, 24, 12], [12, 24, 36, 0], [36, 0, 12, 24]]


@pytest.mark.parametrize("case", LESSON, ids=str)
def test_the_lessons_windows(case: tuple[int, int, int]) -> None:
    seq_len, batch, seed = case
    loader = Loader(ShardedRiver(141, 71, 32), seq_len=seq_len, global_batch=batch, seed=seed, order="hdf5-shards")
    assert firsts(loader, len(LESSON[case])) == LESSON[case]


def test_the_lessons_files() -> None:
    cases = read_json("lesson43/cases.json")
    corpus = open_corpus(golden("lesson43/shards"))
    for seq_len, batch, seed in LESSON:
        given = np.load(golden("lesson43") / cases[f"w{seq_len}_b{batch}_s{seed}"]["npz"], allow_pickle=False)
        loader = Loader(corpus, seq_len=seq_len, global_batch=batch, seed=seed, order="hdf5-shards", prefetch=0)
        inputs, targets = take(loader, len(LESSON[seq_len, batch, seed]))
        assert (inputs == given["x"]).all()
        assert (targets == given["y"]).all()
    with pytest.raises(LimitError, match="seq_len: got 244, which needs at least 245 ids, and the corpus has 244"):
        Loader(corpus, seq_len=244, global_batch=1, order="hdf5-shards")
    assert firsts(Loader(corpus, seq_len=243, global_batch=1, order="hdf5-shards", steps=1), 1) == [[0]]


# ------------------------------------------------------------------------------------- packed fine-tuning rows

SFT = {
    "sft_iter_b3_r0_w1_shuf": ("hdf5-sft", 0, 1),
    "sft_iter_b2_r1_w2_shuf": ("hdf5-sft", 1, 2),
    "sft_iter_b4_r0_w1_seq": ("hdf5-sft-sequential", 0, 1),
}
# rows of the 32 of a file, three a batch, and two a batch on the second of two ranks: an epoch and some of the next
PACKED: dict[tuple[int, int, int], list[list[int]]] = {
    (3, 0, 1): [
        [5, 11, 12],
        [27, 30, 31],
        [9, 10, 21],
        [0, 15, 22],
        [3, 17, 29],
        [8, 13, 24],
        [2, 16, 28],
        [6, 7, 25],
        [4, 14, 18],
        [1, 20, 23],
        [3, 9, 11],
        [0, 7, 21],
        [13, 18, 29],
        [14, 15, 16],
        [22, 28, 30],
    ],
    (2, 1, 2): [
        [11, 15],
        [1, 21],
        [23, 27],
        [5, 19],
        [7, 31],
        [13, 17],
        [3, 9],
        [25, 29],
        [9, 25],
        [23, 27],
        [3, 11],
        [15, 17],
    ],
}


@pytest.mark.parametrize("case", PACKED, ids=str)
def test_packed_rows_by_their_numbers(case: tuple[int, int, int]) -> None:
    batch, rank, world_size = case
    sizes: dict[str, Any] = {"global_batch": batch * world_size, "rank": rank, "world_size": world_size}
    loader = Loader(ArrayRiver(32 * 8 + 5), seq_len=8, order="hdf5-sft", **sizes, prefetch=0)
    assert [[start // 8 for start in starts] for starts in firsts(loader, len(PACKED[case]))] == PACKED[case]


@pytest.mark.parametrize("name", SFT)
def test_packed_rows_as_their_trainer_takes_them(name: str) -> None:
    case = read_json("train_llm_from_scratch/sft_meta.json")["iterators"][name]
    corpus = open_corpus(golden("train_llm_from_scratch/sft_packed.h5"))
    order, rank, world_size = SFT[name]
    assert (case["rank"], case["world"], case["shuffle"]) == (rank, world_size, order == "hdf5-sft")
    sizes: dict[str, Any] = {"global_batch": case["batch_size"] * world_size, "rank": rank, "world_size": world_size}
    loader = Loader(corpus, seq_len=256, order=order, **sizes, steps=case["batches"], prefetch=0)
    calls = len(range(rank, 32, world_size)) // case["batch_size"]
    tokens, weights = hashlib.sha256(), hashlib.sha256()
    assert corpus.loss_mask is not None
    for number, batch in enumerate(loader):
        places = batch.sample_ids[:, None] + np.arange(256)
        trained = corpus.loss_mask.at(places)
        tokens.update(batch.input_ids.astype("<i8").tobytes())
        weights.update(trained.astype("<i8").tobytes())
        assert [row[:4] for row in batch.input_ids.tolist()] == case["first_token_rows"][number]
        assert number // calls == case["epoch_of_each"][number]
        expected = np.where(trained[:, 1:], batch.input_ids[:, 1:], IGNORE)
        assert (batch.targets[:, :-1] == expected).all()
        assert (batch.targets[:, -1] == IGNORE).all()
        assert batch.num_targets == np.count_nonzero(trained[:, 1:])
    assert tokens.hexdigest() == case["sha256_tokens_int64le"]
    assert weights.hexdigest() == case["sha256_mask_int64le"]


def test_another_row_length_than_the_files_is_refused() -> None:
    corpus = open_corpus(golden("train_llm_from_scratch/sft_dev_packed.h5"))
    with pytest.raises(InputError, match=r"seq_len: got 128 with order 'hdf5-sft', expected 256, the ids of the file"):
        Loader(corpus, seq_len=128, global_batch=1, order="hdf5-sft")
