# Two commands on a fresh machine: `make demo` and `make test`. Rust, make and apt are enough.

CARGO ?= cargo
# Everything is built once, in release: the demo, the tests and the benches share it.
RELEASE = --release

.PHONY: packages demo site test test-all test-cli test-cli-alone test-cli-quiet test-cli-many test-realtime test-units test-pages test-python test-benches test-texts check fence fence-check test-long test-long-all evidence bench lint tools build ns3 testbed sender rates pacing capture-rates queue-rates raw-rates nic-evidence traces-rl traces-sparse traces-dense traces-again devices

# Half of what tests do is wait, for wires and processes: two for each core at a time. Of the binary's tests those that compare what a run on wires
# does in time (QUIET, by modules, and by name where few tests of a module do) go first, the one that compares it with virtual time (ALONE) beside nothing; of the others six at a time.
export RUST_TEST_THREADS ?= $(shell expr 2 \* $$(nproc))
MANY = $(shell expr 3 \* $(RUST_TEST_THREADS))
QUIET = blackbox:: capture:: captured:: diagnose:: nic_evidence:: parts:: provenance:: queues:: ranks:: sessions:: tune:: wires:: token_bucket a_rate_is_found
ALONE = wires::the_device_on_wires_loses_what_it_loses_in_virtual_time

TEST = $(CARGO) test $(RELEASE) --workspace $(FEATURES)
# Integration tests of crates that open no wire.
UNITS = compare registry workload

# Measurements of interfaces need root.
ROOT = $(if $(filter 0,$(shell id -u)),,sudo -E)
# Feature flags where the library of a feature is installed; asked when a recipe runs, after `tools`.
FEATURES = $(shell pkg-config --exists libpcap 2>/dev/null && echo --features pktgen-cli/libpcap)

demo:
	$(CARGO) build $(RELEASE) --no-default-features --bin pktgen
	target/release/pktgen demo

build:
	$(CARGO) build $(RELEASE) --workspace --all-targets $(FEATURES)

# Everything; at the end the list of what was skipped, which PKTGEN_REQUIRE=netns,xdp,z3,... turns into failures (testing/needs.tsv).
test: tools
	scripts/skipped $(MAKE) test-all

# The unit tests of all crates, without waiting for wires, files or processes.
check:
	$(CARGO) test $(RELEASE) --workspace $(FEATURES) --lib

# With captures by libpcap where it is installed: one compilation. That a build without it compiles, `lint` asks.
test-all: build lint
	@pkg-config --exists libpcap 2>/dev/null || scripts/skip libpcap "captures by libpcap" "libpcap-dev is not installed"
	$(MAKE) test-cli
	$(MAKE) test-realtime
	$(MAKE) --jobs 4 --output-sync=target test-units test-pages test-python test-benches test-texts

# Tests over wires, and of processes that are killed: even what takes a core in spare time only, beside them, made 4 of 408 fail.
test-cli: test-cli-alone test-cli-quiet test-cli-many

test-cli-alone:
	$(TEST) --test cli $(TESTS) -- $(ALONE)

test-cli-quiet:
	$(TEST) --bin pktgen --test cli $(TESTS) -- $(QUIET) --skip $(ALONE)

test-cli-many:
	$(TEST) --bin pktgen --test cli $(TESTS) -- $(patsubst %,--skip %,$(QUIET)) --test-threads $(MANY)

test-realtime:
	$(TEST) --test realtime $(TESTS)

test-units:
	$(TEST) --lib $(patsubst %,--test %,$(UNITS)) $(TESTS)

# Beside each other, and beside the units of all crates: pages in a browser; what is written in Python; benches, each once; what texts say of each other.
test-pages:
	scripts/browser-check

test-python:
	scripts/python-tests
	scripts/notebooks
	PKTGEN=target/release/pktgen traces/record/test

test-benches:
	$(CARGO) test $(RELEASE) --workspace $(FEATURES) --bench '*' -- --quiet

test-texts:
	scripts/rooms
	scripts/published-check

# Every config at a small scale, and files of older versions, against what is kept: docs/dump.md. UPDATE_FENCE=1 writes that anew.
fence:
	$(CARGO) test $(RELEASE) --workspace $(FEATURES) --test cli fence::

# Does the fence find changes? Plants one after the other in a scratch copy, which it builds.
fence-check:
	scripts/fence-check

# What the tests need beyond Rust: a headless browser that opens the HTML report, and a few packages.
tools:
	scripts/install-tools

# The second build has no feature of the binary. Polars keeps its SQL, so that it is not compiled again.
lint:
	$(CARGO) fmt --all --check
	RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/scripts/lint-rustc $(CARGO) build $(RELEASE) --workspace --all-targets $(FEATURES)
	RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/scripts/lint-rustc $(CARGO) build $(RELEASE) --no-default-features --features pktgen-query/sql --bin pktgen

# Soaks and large sweeps: the same properties on many more cases, and the full published sweeps.
test-long: tools
	scripts/skipped $(MAKE) test-long-all

test-long-all: build
	PKTGEN_BENCH_REPEATS=50 PKTGEN_BENCH_SEARCHES=20 PKTGEN_CAPTURE_GB=10 PKTGEN_DAMAGE=1600 PKTGEN_PAIRS=200 \
	  PKTGEN_KILLS=200 PKTGEN_LAUNCH_KILLS=100 PROPTEST_CASES=20000 $(CARGO) test $(RELEASE) --workspace
	scripts/fence-check
	scripts/shards/test-ray
	scripts/ranks/test-launchers
	$(MAKE) -C devices/rtl test mutants
	$(MAKE) traces-again
	$(MAKE) evidence

# Every published figure, ours beside theirs, and what the formal model says of the paper's cases (where a property
# that fails is an answer, exit code 1, not an error); then one table of all of it, docs/evidence.md.
evidence: build
	mkdir -p runs/evidence
	for config in $(wildcard $(patsubst docs/published/%.toml,configs/%/*.toml,$(wildcard docs/published/*.toml))); do \
	  name=$$(basename $$(dirname $$config))-$$(basename $$config .toml); rm -rf runs/evidence/$$name; cp $$config runs/evidence/$$name.toml; \
	  target/release/pktgen replay $$config --out runs/evidence/$$name || exit 1; \
	done
	for config in configs/verify/*.toml; do \
	  name=verify-$$(basename $$config .toml); rm -rf runs/evidence/$$name; cp $$config runs/evidence/$$name.toml; \
	  target/release/pktgen verify aom-fairness $$config --json --out runs/evidence/$$name >runs/evidence/$$name.json || \
	    [ $$? -eq 1 ] || exit 1; \
	done
	scripts/figures
	scripts/evidence

# Wheel, tarball and Debian package, checked, in target/package: docs/install.md.
packages:
	scripts/package all

# Table 1 in real time over every transport of this host, beside virtual time, and synchronous training; cleans up after itself.
testbed: build
	scripts/testbed

# Devices that are not pktgen's, in target/devices; installs what they are built with: devices/README.md.
devices:
	devices/install
	$(MAKE) -C devices

# The release binary and the examples that measure beside it.
sender:
	$(CARGO) build $(RELEASE)
	$(CARGO) build $(RELEASE) -p pktgen-realtime --examples

# How fast each transport sends on veth pairs, beside testpmd and tcpreplay where they are installed.
rates: sender
	$(ROOT) scripts/rates

# How exactly frames leave when they are due, on a veth pair, beside a bare loop and tcpreplay.
pacing: sender
	$(ROOT) scripts/pacing

# Rates over 1 to as many queues as there are cores.
queue-rates: sender
	$(ROOT) scripts/queue-rates

# Raw frames on veth pairs, beside tcpreplay, a bare loop of live frames, and through testpmd where it is installed.
raw-rates: sender
	$(ROOT) scripts/raw-rates

# Captures on a veth pair, beside tcpdump and dumpcap, at rising rates.
capture-rates: sender
	$(ROOT) scripts/capture-rates

# Traces of real training (traces/README.md), over those that are checked in unless TRACES says where; JOBS changes no bit.
TRACES ?= traces
JOBS ?= 1
traces-rl:
	traces/record/python -m rl $(TRACES)/rl-recorded.parquet --jobs $(JOBS)

traces-sparse:
	traces/record/python -m sparse $(TRACES)/sparse-recorded.parquet

traces-dense:
	traces/record/python -m dense $(TRACES)/dense-recorded.parquet

# Records all of them again and compares with those that are checked in: the same, bit for bit, on one kind of machine. Five minutes.
traces-again:
	$(MAKE) TRACES=target/record/again traces-rl traces-sparse traces-dense
	for trace in target/record/again/*.parquet; do cmp $$trace traces/$$(basename $$trace) && echo "the same: $$(basename $$trace)" || exit 1; done

# Everything about a real card, packed for sending: make nic-evidence IF=eth1 [PEER=eth2]; see docs/hardware.md.
nic-evidence: sender
	IF="$(IF)" PEER="$(PEER)" $(ROOT) scripts/nic-evidence

# The multi-hop network again in ns-3 (installs libns3-dev): losses, ages and speed of both simulators.
ns3: build
	scripts/ns3/compare

# The documentation as a site in target/site/book, read and searched without a network; installs mdbook in target/tools once.
MDBOOK_VERSION = 0.4.52
site:
	@command -v mdbook >/dev/null || [ -x target/tools/bin/mdbook ] || \
	  $(CARGO) install mdbook --version $(MDBOOK_VERSION) --locked --no-default-features --features search --root target/tools
	scripts/site

bench:
	$(CARGO) bench --workspace
