"""Check a corpus: checksums and invariants, or decode it and compare it with its sources."""

from pathlib import Path
from typing import Annotated

import typer

import tokenriver
from tokenriver.commands import _environment, _options, _output

AgainstInputs = Annotated[
    bool, typer.Option("--against-inputs", help="Decode every document and compare it with its source.")
]
InputsRoot = Annotated[
    Path | None, typer.Option("--inputs-root", metavar="FOLDER", help="Where the sources lie now, if they were moved.")
]


def run(
    path: _options.CorpusPath,
    against_inputs: AgainstInputs = False,
    inputs_root: InputsRoot = None,
    tokenizer: _options.MadeBy = None,
    json: _options.Json = False,
) -> None:
    """Check a corpus: checksums and invariants, or decode it and compare it with its sources.

    Every shard and index is read and compared with the manifest: sizes,
    checksums, document bounds, largest id. Exit code 1 if there are findings.

    Example:  tokenriver verify corpus --against-inputs
    """
    with _output.progress(f"verifying {path}"):
        findings = tokenriver.verify(
            path,
            against_inputs=against_inputs,
            inputs_root=inputs_root,
            tokenizer=tokenizer,
            tokenizer_search=_environment.tokenizer_folders(),
        )
    if json:
        rows = [{"path": f.path, "what": f.what, "got": f.got, "expected": f.expected} for f in findings]
        _output.emit_json({"path": str(path), "findings": rows})
    elif findings:
        _output.heading(f"{path}: {len(findings):,} finding{'s' if len(findings) > 1 else ''}")
        for finding in findings:
            print(f"  {finding.path}: {finding.what}: got {finding.got}, expected {finding.expected}")
    else:
        print(f"{path}: no findings")
    if findings:
        raise typer.Exit(1)
