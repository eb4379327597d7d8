"""Measurements of tokenriver beside the ceilings of the same machine, in one run: `python -m benchmarks`."""
