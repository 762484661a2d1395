# Start with `make study` and `make test`. Each target installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: study study-docs explore-docs demo test test-slow lint types docs dist bench bench-import bench-quality bench-coverage bench-size bench-evidence bench-constants bench-modes bench-verdict bench-adaptive-batch bench-search bench-search-tables bench-mixed bench-optuna bench-samplers bench-asynchronous bench-engines bench-compiled bench-ends bench-agreement bench-mixed-tables clean

# QUICK=1 makes 15 runs instead of 100.
study: $(VENV)/.study
	$(BIN)/paoswarm study paper --out $(if $(QUICK),study-quick --quick,study)

# Copy the tables and figures of the study that the documentation shows.
study-docs: study
	mkdir -p docs/study
	cp study/tables/centre-bias.csv study/tables/the-papers-claims.csv docs/study/
	cp study/figures/convergence-8d-1.png study/figures/convergence-2d-2.png study/figures/convergence-8d-2.png docs/study/

# Take the pictures of the page "Explore" again. This needs chromium and chromedriver.
explore-docs: $(VENV)/.dev
	$(BIN)/python -W ignore docs/explore/screenshots.py

# Draw the pictures of the documentation again.
.PHONY: pictures
pictures: $(VENV)/.dev
	$(BIN)/python -W ignore docs/pictures/draw.py

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

# One BLAS thread per test worker: more threads than cores would wait for each other.
docs test test-slow: export OPENBLAS_NUM_THREADS := 1
# Compiled modules are kept, even where the environment says otherwise: each worker and each child would compile them again.
test test-slow: export PYTHONDONTWRITEBYTECODE :=

test: lint types docs
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

test-slow: $(VENV)/.dev
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

# How long the first import takes: our own part, NumPy's, SciPy's and Python's.
bench-import: $(VENV)/.demo
	$(BIN)/python benchmarks/import_time.py

bench-evidence: $(VENV)/.demo
	$(BIN)/python benchmarks/evidence.py

# What each constant of the sampler's search is worth: half an hour.
bench-constants: $(VENV)/.demo
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/constants.py $(ARGS)

bench-modes: $(VENV)/.demo
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/modes.py $(ARGS)

# How far the sampler's verdict can be believed. This continues where it was stopped.
bench-verdict: $(VENV)/.demo
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/verdict.py $(ARGS)

bench-quality: $(VENV)/.demo
	$(BIN)/python benchmarks/quality.py

# How often the swarm's next step contains the minimum.
bench-coverage: $(VENV)/.demo
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/coverage.py

bench-size: $(VENV)/.demo
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/swarm_size.py $(ARGS)

bench-asynchronous: $(VENV)/.demo
	$(BIN)/python benchmarks/asynchronous.py

bench-ends: $(VENV)/.demo
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/ends.py $(ARGS)

# How often the searches agree, and how often they are right then (about an hour).
bench-agreement: $(VENV)/.demo
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/agreement.py measure $(ARGS)
	$(BIN)/python benchmarks/agreement.py table

# Measure the overhead of each kind of workers. Kinds that are not installed are skipped.
bench-engines: $(VENV)/.dev
	$(BIN)/python benchmarks/engines.py

# pygmo and freelunch have their own environment, because they are not dependencies of paoswarm.
bench: $(VENV)-bench/.bench
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(VENV)-bench/bin/python benchmarks/speed.py $(ARGS)

# The numba engine; -P because a script beside it has the name of a package that numba imports.
bench-compiled: $(VENV)-bench/.bench
	OPENBLAS_NUM_THREADS=1 $(VENV)-bench/bin/python -P benchmarks/compiled.py $(ARGS)

# Adaptive searches in batches, and CMA-ES.
bench-adaptive-batch: $(VENV)-searchers/.bench
	$(VENV)-searchers/bin/python -m pip install --quiet --disable-pip-version-check -e ".[numba]"
	OPENBLAS_NUM_THREADS=1 $(VENV)-searchers/bin/python -P benchmarks/adaptive_batch.py $(ARGS)

# Compare with other searches on five sets of problems. This takes many hours, and continues where it was stopped.
bench-search: $(VENV)-searchers/.bench
	OPENBLAS_NUM_THREADS=1 $(VENV)-searchers/bin/python benchmarks/search.py $(or $(ARGS),all)

# Write the tables of docs/how_good.md from the runs that are there.
bench-search-tables: $(VENV)/.demo
	for set in bbob classic nist ode paper; do \
		$(BIN)/python benchmarks/search.py $$set --table > docs/how_good/$$set.inc || exit 1; \
	done

# Compare with other searches where there are integers and constraints. SET is one of bbob-mixint, bbob-constrained,
# designs, cec2006, exponentials. This takes hours, and continues where it was stopped.
SET ?= designs
bench-mixed: $(VENV)-mixed/.bench
	OPENBLAS_NUM_THREADS=1 $(VENV)-mixed/bin/python benchmarks/mixed_constrained.py $(SET) $(ARGS)

# Compare with Optuna's own samplers: half an hour. This continues where it was stopped.
bench-optuna: $(VENV)-mixed/.bench
	OPENBLAS_NUM_THREADS=1 $(VENV)-mixed/bin/python benchmarks/optuna_samplers.py $(ARGS)
# Write the tables of docs/mixed_constrained.md from the runs that are there.
bench-mixed-tables: $(VENV)/.demo
	$(BIN)/python benchmarks/mixed_constrained.py tables

# Compare with other samplers. This takes hours, and continues where it was stopped. ARGS=--table only prints the table.
bench-samplers: $(VENV)-samplers/.bench
	$(VENV)-samplers/bin/python benchmarks/samplers.py $(ARGS)

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

$(VENV)-bench/.bench: pyproject.toml
	$(PYTHON) -m venv $(VENV)-bench
	$(VENV)-bench/bin/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	touch $@

$(VENV)-searchers/.bench: pyproject.toml
	$(PYTHON) -m venv $(VENV)-searchers
	$(VENV)-searchers/bin/python -m pip install --quiet --disable-pip-version-check -e ".[searchers]"
	touch $@

$(VENV)-mixed/.bench: pyproject.toml
	$(PYTHON) -m venv $(VENV)-mixed
	$(VENV)-mixed/bin/python -m pip install --quiet --disable-pip-version-check -e ".[mixed]"
	touch $@

$(VENV)-samplers/.bench: pyproject.toml
	$(PYTHON) -m venv $(VENV)-samplers
	$(VENV)-samplers/bin/python -m pip install --quiet --disable-pip-version-check -e ".[samplers]"
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-bench $(VENV)-samplers $(VENV)-searchers $(VENV)-mixed $(VENV)-dist dist docs/_build docs/gallery docs/api/generated demo study study-* build
