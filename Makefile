# Needs Python 3.11 or later, and make. Everything else is installed into .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
LOWEST := .venv-lowest
WORKERS ?= 3
SIZES  ?= 10000,100000,1000000,10000000

.DEFAULT_GOAL := help
.PHONY: help demo test scenes lowest lint format long matrix faults failover browser screens rendered picture pictures docs dist bench scale clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pipestate needs Python 3.11 or later; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(READY) ## show the main job on a PostgreSQL of its own, from a wheel
	$(BIN)/pipestate demo

test: $(READY) ## run the suite on real servers (WORKERS=3 tests at a time)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not scene' $(ARGS)

scenes: $(READY) ## the stories that take long: wheel, demo, example, CI jobs, pages of the docs, rehearsals, faults
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m scene $(ARGS)

$(LOWEST)/.ready: pyproject.toml tests/lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c tests/lowest.txt
	@touch $@

lowest: $(LOWEST)/.ready ## the suite with the oldest Alembic and SQLAlchemy that are allowed (ARGS: a part of it)
	$(LOWEST)/bin/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

lint: $(READY) ## ruff, mypy --strict and the test of the package's borders
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/unit/test_borders.py

format: $(READY) ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

long: $(READY) ## the suite in its long form: every cut of a script, more instants of a kill, a larger crowd
	PIPESTATE_TEST_LONG=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

matrix: $(READY) ## migrations, gates, verify and attacks on PostgreSQL 13 to 18 (VERSIONS="13 18"; needs npm)
	$(BIN)/python tests/matrix.py $(VERSIONS)

faults: $(READY) ## kills, lost connections and stopped servers, 300 times; a million jobs (PART=upgrade: only that)
	$(BIN)/python tests/faults/run.py $(addprefix --part ,$(PART))

failover: $(READY) ## PgBouncer in two modes; a Patroni cluster: switchover and a killed primary in each command (Debian; ROUNDS=2)
	$(BIN)/python tests/failover/pgbouncer.py
	$(BIN)/python tests/failover/run.py $(addprefix --rounds ,$(ROUNDS))

browser: $(READY) ## the report in a real Chromium at four widths: layout, no request, accessible; pictures in build/ (needs npm)
	$(BIN)/python tests/in_browser.py $(ARGS)

screens: $(READY) ## write the kept screens anew (look at the difference)
	PIPESTATE_WRITE_SCREENS=1 $(BIN)/python -m pytest -q tests/acceptance/test_screens.py tests/unit/cli/formats/test_rehearse.py

rendered: $(READY) ## write the kept SQL of revisions, ledger and pipeline anew (look at the difference)
	PIPESTATE_WRITE_RENDERED=1 $(BIN)/python -m pytest -q tests/application/migrations/test_rendered.py \
	  tests/integration/ledger/test_install.py tests/application/unit/test_rendered.py

picture: $(READY) ## write the README's picture anew
	$(BIN)/python tests/picture.py

pictures: $(READY) ## write the pictures of report and status anew (needs Chromium)
	$(BIN)/python tests/report_pictures.py

docs: $(READY) ## build the documentation's site, strictly, into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

dist: $(READY) ## build the wheel and the source archive into dist/, and check their metadata
	rm -rf dist
	$(BIN)/python -m build --no-isolation --quiet
	$(BIN)/twine check --strict dist/*

bench: $(READY) ## run every benchmark, up to 5 million rows; results.json and docs/explanation/scale.md keep the ratios (90 minutes)
	@code=0; for file in benchmarks/[a-z]*.py; do echo "== $$file"; $(BIN)/python $$file || code=1; done; \
	  $(BIN)/python benchmarks/_scale_page.py; exit $$code

scale: $(READY) ## measure verify and the contract up to ten million rows, into docs/explanation/scale.md (takes two hours)
	@mkdir -p build && rm -f build/scale_verify.json
	@code=0; \
	  $(BIN)/python benchmarks/verify.py --sizes $(SIZES) --json build/scale_verify.json || code=1; \
	  $(BIN)/python benchmarks/writer_wait.py --only migrations --sites 10000000 --rounds 1 || code=1; \
	  $(BIN)/python benchmarks/_scale_page.py build/scale_verify.json; exit $$code

clean: ## remove the virtual environment and what builds leave behind
	rm -rf $(VENV) $(LOWEST) dist build .mypy_cache .ruff_cache

.PHONY: docs-cli
docs-cli: $(READY) ## write docs/reference/cli.md anew, from --help
	$(BIN)/python tests/cli_page.py
