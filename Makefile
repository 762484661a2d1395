# Start with `make study` and `make test`. Each target installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: study study-docs explore-docs pictures demo test check test-slow compile lint types docs dist bench clean

# QUICK=1 makes 15 runs instead of 100.
study: $(VENV)/.study
	$(BIN)/python benchmarks/paper_claims.py --out $(if $(QUICK),study-quick --quick,study)

# Copy the tables and figures of the study that the documentation shows.
study-docs: study
	mkdir -p docs/study
	cp study/tables/centre-bias.csv study/tables/the-papers-claims.csv docs/study/
	cp study/figures/convergence-8d-1.png study/figures/convergence-2d-2.png study/figures/convergence-8d-2.png docs/study/

# Take the pictures of the page "Explore" again. This needs chromium and chromedriver.
explore-docs: $(VENV)/.dev
	$(BIN)/python -W ignore docs/explore/screenshots.py

# Draw the pictures of the documentation again.
pictures: $(VENV)/.dev
	$(BIN)/python -W ignore docs/pictures/draw.py

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

# One BLAS thread per test worker: more threads than cores would wait for each other.
docs test check test-slow: export OPENBLAS_NUM_THREADS := 1
# Compiled modules are kept, even where the environment says otherwise: each worker and each child would compile them again.
test check compile test-slow: export PYTHONDONTWRITEBYTECODE :=

test: lint types docs compile
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

# The daily loop: the kernels, spaces, methods and the log, and every way into a run.
check: $(VENV)/.dev compile
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" tests/core tests/space tests/methods \
		tests/store/test_log.py tests/run/test_contract_of_runs.py tests/test_architecture.py tests/test_public_api.py

# Compile what tests need from numba once, before several workers would.
compile: $(VENV)/.dev
	$(BIN)/python tests/compile_numba.py

test-slow: $(VENV)/.dev compile
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

docs: $(VENV)/.dev
	MPLBACKEND=Agg $(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

# Build the sdist, and from it the wheel, into dist/, and check them.
dist: $(VENV)-dist/.tools $(VENV)/.dev
	rm -rf dist
	$(VENV)-dist/bin/python -m build --outdir dist
	$(VENV)-dist/bin/twine check --strict dist/*
	PAOSWARM_DIST=dist $(BIN)/python -m pytest -m slow tests/distribution
	ls -l dist

# Measure. NAME is a script of benchmarks/ (`python -m benchmarks` lists them), ARGS are its arguments. Those that compare
# with other libraries have an environment of their own. The long ones continue where they were stopped.
NAME ?= speed
PEERS_OF_speed := bench
PEERS_OF_compiled := bench
PEERS_OF_adaptive_batch := searchers
PEERS_OF_search := searchers
PEERS_OF_many_unknowns := searchers
PEERS_OF_noisy := searchers
PEERS_OF_mixed_constrained := mixed
PEERS_OF_optuna_samplers := mixed
PEERS_OF_samplers := samplers
PEERS_OF_fit := fitters
PEERS_OF_fit_coverage := fitters
PEERS := $(PEERS_OF_$(NAME))
BENCH := $(VENV)$(PEERS:%=-%)
bench: $(if $(PEERS),$(BENCH)/.bench,$(VENV)/.dev)
	$(if $(filter speed,$(NAME)),OMP_NUM_THREADS=1) OPENBLAS_NUM_THREADS=1 $(BENCH)/bin/python -m benchmarks $(NAME) $(ARGS)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[plot,progress]"
	touch $@

$(VENV)/.study: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[study]"
	touch $@ $(VENV)/.demo

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@ $(VENV)/.demo $(VENV)/.study

$(VENV)-dist/.tools:
	$(PYTHON) -m venv $(VENV)-dist
	$(VENV)-dist/bin/python -m pip install --quiet --disable-pip-version-check "build>=1.2" "twine>=6.1"
	touch $@

$(VENV)-%/.bench: $(BUILT_FROM)
	$(PYTHON) -m venv $(VENV)-$*
	$(VENV)-$*/bin/python -m pip install --quiet --disable-pip-version-check -e ".[$*]"
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-bench $(VENV)-samplers $(VENV)-searchers $(VENV)-mixed $(VENV)-fitters $(VENV)-dist dist docs/_build docs/gallery docs/api/generated demo study study-* build
