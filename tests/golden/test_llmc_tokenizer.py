"""The facts of llm.c's tokenizer file: digest, records, and what its C reader decodes."""

import json
import struct
from pathlib import Path

from golden_data import golden
from tokenriver.tokenizer import load_tokenizer
from tokenriver.tokenizers import llmc


def test_the_file_is_written_byte_for_byte_and_decodes_as_in_c(tmp_path: Path) -> None:
    facts = json.loads(golden("llmc/gpt2_tokenizer.json").read_text())
    path = tmp_path / "gpt2_tokenizer.bin"
    written = llmc.write(path, load_tokenizer("gpt2"))
    case = facts["gpt2_tokenizer.bin"]
    assert (written.num_bytes, written.sha256) == (case["bytes"], case["sha256"])
    data = path.read_bytes()
    assert list(struct.unpack_from("<8I", data)) == facts["header_words_0_to_7_v2"]
    for record in facts["records"].values():
        assert data[record["offset"]] == record["length"]
    tokenizer = load_tokenizer(path)
    # C prints texts up to a zero byte; ours are whole
    decoded = tokenizer.decode_bytes(case["c_decode_ids"])
    assert decoded == bytes.fromhex(case["c_decode_hex"]) + b"\0"
    for number, record in facts["records"].items():
        assert tokenizer.decode_bytes([int(number)]).hex() == record["hex"]
