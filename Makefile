# make demo   run the main job on real records        make test    pass the quick tests, minutes
# make check  format, lint, types, architecture       make test-all  pass all tests
# make audit  audit specimens and this package's own mechanisms
# make tutorials  run the course, whole; QUICK=1 make tutorials: small runs
# make report check the papers' claims, audit, write report/report.html
# make docs    build the pages of docs/, with the API and the proof notes, as a site: build/docs/index.html
# Each makes its own virtual environment when it is missing, from hashed versions, with the newest of Python 3.13, 3.12
# and 3.11 that is there (make test PYTHONS=3.11: another). Needs make and a C++ compiler.
# make test-oldest  the part that depends on PyMC, on files and on the audit core, with Python 3.11 and the oldest
#                   version of every direct dependency that pyproject.toml allows; PART=2/4: of its thorough ones a quarter

# The first of these versions that runs: a name on the path may be a shim of pyenv for a version that is not active.
PYTHONS ?= 3.13 3.12 3.11
OLDEST = 3.11
LOCK = requirements.lock
ifndef PYTHON
PYTHON := $(shell for v in $(PYTHONS); do for p in python$$v "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$v.*/bin/python$$v; do \
	"$$p" -c '' 2>/dev/null && echo "$$p" && exit; done; done; echo python3)
endif
ifndef VENV
VENV := .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
endif
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed-$(shell cat $(LOCK) pyproject.toml | cksum | cut -d' ' -f1)
KERNELS = $(VENV)/.kernels
# one more than there are processors, since tests wait for processes and for the disk; each takes about a gigabyte
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(os.cpu_count() or 1, 4) + 1)')
PYTEST = $(BIN)/python -m pytest -n $(WORKERS)
export OMP_NUM_THREADS ?= 1
export PYTHONPATH =
# else each process of the tests compiles every module, and rewrites every assertion, again
export PYTHONDONTWRITEBYTECODE =

.PHONY: environment oldest-environment demo test test-all test-thorough test-oldest oldest lint check audit tutorials report benchmark docs site lock notes clean

demo: $(STAMP)
	$(BIN)/pm-dpgmm demo --force

# without C++: PyTensor folds constants of small graphs in Python, where it would compile each for seconds
test: $(KERNELS)
	PYTENSOR_FLAGS=$${PYTENSOR_FLAGS:-cxx=} HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-quick} $(PYTEST) -m "not thorough"

test-all: $(KERNELS)
	$(PYTEST)

# what make test leaves to make test-all; PART=2/4: the second of four parts of it
test-thorough: $(KERNELS)
	$(PYTEST) -m thorough $(if $(PART),--part $(PART))

# compiled once, before test workers would each compile them at the same time
$(KERNELS): $(STAMP) $(shell grep -rl numba pm_dpgmm verification --include='*.py')
	$(BIN)/python -m tests.warm_kernels
	touch $@

environment: $(KERNELS)

# a make of its own, since interpreter and lock file make the environment
WITH_OLDEST = env -u PYTHON -u VENV $(MAKE) PYTHONS=$(OLDEST) LOCK=requirements-oldest.lock VENV=.venv-oldest
test-oldest:
	$(WITH_OLDEST) oldest

oldest-environment:
	$(WITH_OLDEST) environment

# all of what samples, reads files or keeps records apart
OLDEST_TESTS = $(patsubst %,tests/bayes/%,prior rows starts) $(wildcard tests/bayes/test_*.py) tests/records \
	tests/test_without_pymc.py tests/test_imports.py tests/cli/test_warm_up.py \
	$(patsubst %,tests/privacy/test_%.py,guarantee ledger noise)
# of the rest, what make test has: formulas, their derivatives and the error probabilities of hundreds of audits do not
# depend on versions, and make test-all has them
OLDEST_QUICK = $(patsubst %,tests/bayes/%,compiled likelihoods parameters) $(patsubst %,tests/test_%.py,docs estimator fit) \
	tests/cli/test_main.py $(patsubst %,tests/release/test_%.py,fit_check plots release) \
	$(filter-out $(ARITHMETIC),$(wildcard tests/verification/auditing/test_*.py)) \
	$(patsubst %,tests/verification/%,auditing/features profile references test_multiplicity.py test_pytest_plugin.py)
# of the audits, what are binomials and JSON
ARITHMETIC = $(patsubst %,tests/verification/auditing/test_%.py,certificate curve_certificate guessing curve_guessing \
	one_run one_run_guessing)
OLDEST_WARNINGS = -W ignore::DeprecationWarning -W ignore::FutureWarning

# what old releases of dependencies deprecate in newer ones of theirs is no fault of ours
oldest: $(KERNELS)
	@$(BIN)/python -c 'import sys; v = "%d.%d" % sys.version_info[:2]; sys.exit("Python $(OLDEST) is needed, found " + v if v != "$(OLDEST)" else 0)'
	$(PYTEST) $(OLDEST_WARNINGS) $(OLDEST_TESTS) $(if $(PART),--part $(PART))
	$(PYTEST) $(OLDEST_WARNINGS) -m "not thorough" $(OLDEST_QUICK)

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m verification.proof_notes

check: lint
	$(BIN)/python -m pytest -q -n 0 tests/test_architecture.py

audit: $(STAMP)
	$(BIN)/python -m verification specimens
	$(BIN)/python -m verification targets

tutorials: $(KERNELS)
	$(BIN)/python tutorials/run_all.py

report: $(STAMP)
	$(BIN)/python -m verification report --out report

# a make of its own, as above; SPHINX=-E reads every page again
docs:
	env -u VENV $(MAKE) LOCK=requirements-docs.lock VENV=.venv-docs site

site: $(STAMP)
	$(BIN)/python -m sphinx -W --keep-going --quiet -c docs -d build/docs-cache $(SPHINX) . build/docs

# a line with - goes on when a target was missed; the output says which
benchmark: $(STAMP)
	-$(BIN)/python -m verification.benchmarks.accuracy --out benchmark-output
	-$(BIN)/python -m verification.benchmarks.real_tables --out benchmark-output
	-$(BIN)/python -m verification.benchmarks.sketch_speed
	-$(BIN)/python -m verification.benchmarks.out_of_core
	-$(BIN)/python -m verification.benchmarks.number_of_components
	-$(BIN)/python -m verification.benchmarks.covariance_types
	$(BIN)/python -m verification.benchmarks.histogram_size
	$(BIN)/python -m verification.benchmarks.slices_accuracy
	$(BIN)/python -m verification.benchmarks.far_and_wide
	$(BIN)/python -m verification.benchmarks.populous_single_size
	$(BIN)/python -m verification.benchmarks.robust_normal
	$(BIN)/python -m verification.benchmarks.import_time
	$(BIN)/python -m verification.benchmarks.friend_table_speed
	-$(BIN)/python -m verification.benchmarks.batched_em_speed
	-$(BIN)/python -m verification.benchmarks.populous_release
	-$(BIN)/python -m verification.benchmarks.local_release
	-$(BIN)/python -m verification.benchmarks.populous_table
	-$(BIN)/python -m verification.benchmarks.prior_modes
	-$(BIN)/python -m verification.benchmarks.labelled_rows
	-$(BIN)/python -m verification.benchmarks.fault_power
	$(BIN)/python -m verification.benchmarks.auditors

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, found " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

COMPILE = uv pip compile pyproject.toml --generate-hashes --python-version 3.11 --upgrade -q --custom-compile-command "make lock"
lock:
	$(COMPILE) --extra dev --universal -o requirements.lock
	$(COMPILE) --extra dev --resolution lowest-direct -o requirements-oldest.lock
	$(COMPILE) --extra docs --universal --constraints requirements.lock -o requirements-docs.lock

notes: $(STAMP)
	$(BIN)/python -m verification.proof_notes --sign

clean:
	rm -rf $(VENV) .venv-oldest .venv-docs .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output
