# Everything works from a clean clone: each target first makes the virtual environment that it needs.
#   make demo       the main job on real text found on this machine
#   make test       the suite (no torch, no browser);   make test-all adds torch, the peers' libraries and the slow tests
#   make check      format, lint, types;   make bench, make soak, make fuzz: the measurements and the long runs

.PHONY: demo test test-all check bench soak fuzz clean
.DELETE_ON_ERROR:
PROCESSES ?= 2
SECONDS ?= 600
# the tests start hundreds of processes, each of which would otherwise compile the package anew
unexport PYTHONDONTWRITEBYTECODE
# of test-all: none means every test, the long ones too; "slow or interop or torch" only what test leaves out
MARKS ?=
PYTEST = .venv-test/bin/python -m pytest -n $(PROCESSES) --dist worksteal

demo: .venv/.core
	.venv/bin/tokenriver demo

test: .venv-test/.test
	$(PYTEST)

test-all: .venv-test/.all .venv-peers/.all
	$(PYTEST) -m "$(MARKS)"

check: .venv-test/.test
	.venv-test/bin/ruff format --check .
	.venv-test/bin/ruff check .
	MYPY_NUM_WORKERS=$(PROCESSES) .venv-test/bin/mypy

bench: .venv-test/.test
	.venv-test/bin/python -m benchmarks

soak: .venv-test/.test
	.venv-test/bin/python scripts/soak

# SECONDS for each parser; what is found is kept in tests/attacks/corpus
fuzz: .venv-test/.test
	PYTHONPATH=tests .venv-test/bin/python -m attacks.fuzzing --seconds $(SECONDS)

.venv/.core: pyproject.toml scripts/setup $(wildcard compiled/*)
	scripts/setup .venv .core -e .

.venv-test/.test: pyproject.toml scripts/setup $(wildcard compiled/*)
	scripts/setup .venv-test .test -e '.[check]'

# torch by pip alone: pip follows this machine's own configuration, which is what tells it where the CPU build lies
.venv-test/.all: .venv-test/.test
	SETUP_PIP=1 scripts/setup .venv-test .all 'torch==2.13.0' -e '.[check,test-all]'

# the peers' own libraries, each in an environment of its own, with the torch of the one above
.venv-peers/.all: .venv-test/.all scripts/peers $(wildcard tests/interop/peers/requirements/*.txt)
	scripts/peers .venv-test

clean:
	rm -rf .venv .venv-test .venv-peers demo bench-work .mypy_cache .ruff_cache .pytest_cache .hypothesis
