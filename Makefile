# Two commands on a fresh machine: `make demo` runs the main job, `make test` runs every check.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test format sweep-programs sweep-never-worse sweep-random-models sweep-plans sweep-time-plans fuzz faults
.PHONY: soak signals models-table clean

demo: .venv/installed
	$(BIN)/hyperplace partition vgg16 --k 4 --imbalance 0.1

test: .venv/installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest --durations 30

# Long comparisons of which the tests run a share: 15 minutes and 3 hours, which go on where they were stopped, and 10 minutes.
sweep-programs: .venv/installed-test
	$(BIN)/python tests/sweeps/zoo_programs.py results/zoo-programs.csv

sweep-never-worse: .venv/installed-test
	$(BIN)/python tests/sweeps/never_worse.py results/never-worse.csv

sweep-time-plans: .venv/installed-test
	$(BIN)/python tests/sweeps/time_plans.py --count 200

sweep-random-models: .venv/installed-test
	$(BIN)/python tests/sweeps/random_models.py 2000 0

# What trains and what is refused, found by running the corpus in every way (a quarter of an hour).
models-table: .venv/installed-test
	$(BIN)/python tests/corpus/table.py

sweep-plans: .venv/installed-test
	$(BIN)/python tests/sweeps/mutated_plans.py 20000

# Files of every kind that hyperplace reads, mutated: so many of each; 2,000 take five minutes.
FUZZ_COUNT ?= 2000
FUZZ_SEED ?= 0
fuzz: .venv/installed-test
	$(BIN)/python tests/sweeps/mutated_files.py --count $(FUZZ_COUNT) --seed $(FUZZ_SEED)

# Hosts lost at random places (half an hour; goes on where it was stopped); emulated hosts need root, otherwise on loopback.
COUNT ?= 1000
JOBS ?= 4
faults: .venv/installed-test
	$(BIN)/python tests/sweeps/faults.py $(COUNT) --jobs $(JOBS) --out results/faults/faults.csv

# A long run in which a host is lost every so often and replaced by a spare; STEPS=600 LOSS_EVERY=200 takes a minute.
STEPS ?= 20000
LOSS_EVERY ?= 2000
soak: .venv/installed-test
	$(BIN)/python tests/sweeps/soak.py --steps $(STEPS) --loss-every $(LOSS_EVERY) --out results/faults/soak.csv

# 200 x SIGINT, 50 x SIGTERM, 50 x SIGKILL to train and partition; goes on where it was stopped (SIGNALS="SIGINT 10").
SIGNALS ?= SIGINT 200 SIGTERM 50 SIGKILL 50
signals: .venv/installed-test
	$(BIN)/python tests/sweeps/signals.py --out results/faults/signals.csv $(SIGNALS)

format: .venv/installed-test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.venv/made:
	$(PYTHON) -m venv .venv
	touch $@

.venv/installed: .venv/made pyproject.toml constraints.txt
	$(PIP) -e .
	touch $@

.venv/installed-test: .venv/made pyproject.toml constraints.txt
	$(PIP) -e '.[test]'
	touch $@ .venv/installed

clean:
	rm -rf .venv build *.egg-info
