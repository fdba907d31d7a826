# Two commands on a fresh machine: `make demo` and `make test`. Rust, make and apt are enough.

CARGO ?= cargo
# Everything is built once, in release: the demo, the tests and the benches share it.
RELEASE = --release

.PHONY: demo test test-long evidence bench lint tools build ns3 testbed

demo:
	$(CARGO) run $(RELEASE) --quiet --bin pktgen -- demo

build:
	$(CARGO) build $(RELEASE) --workspace --all-targets

test: tools build lint
	$(CARGO) test $(RELEASE) --workspace
	$(CARGO) test $(RELEASE) --workspace --benches -- --quiet
	scripts/browser-check

# What the tests need beyond Rust: a headless browser that opens the HTML report.
tools:
	scripts/install-tools

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(RELEASE) --workspace --all-targets -- -D warnings

# Soaks and large sweeps: the same properties on many more cases, and the full published sweeps.
test-long:
	PROPTEST_CASES=20000 $(CARGO) test $(RELEASE) --workspace
	$(MAKE) evidence

# Every published figure, ours beside theirs, and what the formal model says of the paper's cases (where a property
# that fails is an answer, exit code 1, not an error).
evidence: build
	for config in configs/olaf/*.toml; do \
	  name=$$(basename $$config .toml); rm -rf runs/evidence/$$name; \
	  target/release/pktgen replay $$config --out runs/evidence/$$name || exit 1; \
	done
	for config in configs/verify/*.toml; do \
	  name=verify-$$(basename $$config .toml); rm -rf runs/evidence/$$name; \
	  target/release/pktgen verify aom-fairness $$config --out runs/evidence/$$name || [ $$? -eq 1 ] || exit 1; \
	done

# Table 1 in real time over every transport of this host, beside virtual time; cleans up after itself.
testbed: build
	scripts/testbed

# The multi-hop network again in ns-3 (installs libns3-dev): losses, ages and speed of both simulators.
ns3: build
	scripts/ns3/compare

bench:
	$(CARGO) bench --workspace
