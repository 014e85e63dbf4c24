# Two commands do everything, dependencies included: `make run` and `make test`. See `make help`.

CARGO      ?= cargo
PREFIX     ?= /usr/local
LIBDIR     ?= $(PREFIX)/lib
DESTDIR    ?=
BENCH_ARGS ?=
K          ?=
SERIES_ARGS ?=
ARM64_ARGS ?=

# Empty when we are root already. Only what must be root runs as root; builds never do.
SUDO    := $(if $(filter-out 0,$(shell id -u)),sudo)
XTASK   := $(CARGO) run --quiet --locked --package xtask --
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release
DIST    := $(or $(CARGO_TARGET_DIR),target)/release-$(shell git rev-parse --short HEAD 2>/dev/null || echo tree)
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)

.PHONY: build help deps dist run demo-two-hosts check test test-all arm64 kernel-arm64 kernel-test kernel-shell kernel-series kernel-series-checked bench bench-agent install install-library fmt lint clean

build: deps
	$(CARGO) build --release --locked --package sockstamp-cli --package sockstamp-capi
	scripts/debug-file.sh $(RELEASE)/sockstamp
	scripts/c-library.sh $(RELEASE)/libsockstamp_capi.a $(RELEASE)/c-library

help:
	@echo "make build         the release binary, at $(RELEASE)/sockstamp, and the C library"
	@echo "make run           build, then the demo: sockstamp stat over a 10 ms link (root, else by sudo)"
	@echo "make demo-two-hosts  build, then both ends of a connection, recorded and joined (root, else by sudo)"
	@echo "make check         format, clippy, unit and property tests: two minutes, no root"
	@echo "make test          the tests of each change: 20 minutes on two processors (root)"
	@echo "make test-all      in addition other kernels, Miri, fuzzing and more, where their files changed (root)"
	@echo "make kernel-test   chosen tests on Debian's kernels, in QEMU; K=6.12 for one of them"
	@echo "make kernel-shell  a shell on one of them: K=6.12"
	@echo "make arm64         sockstamp for arm64, by a cross compiler; ARM64_ARGS=--release"
	@echo "make kernel-arm64  what doctor says on Debian's arm64 kernels, in QEMU; K=6.12 for one of them"
	@echo "make kernel-series the kernel of kernel/series: built (an hour, once), its selftests, instructions, sockstamp on it"
	@echo "make kernel-series-checked its selftests alone, on a kernel with KASAN and lockdep"
	@echo "make bench         what measuring costs, as ratios; BENCH_ARGS=... (root, else by sudo)"
	@echo "make bench-agent   what sockstamp agent costs, against its budgets (root, else by sudo)"
	@echo "make install       binary, C library, man pages, completions; PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)"
	@echo "make deps          what the build needs, by apt"
	@echo "make dist          what a release has: packages, image, archive, at $(DIST) (new)"
	@echo "make fmt           format Rust and C"
	@echo "make lint          the checks of 'make test' that run no test"
	@echo "make clean         remove what was built"

deps:
	@scripts/deps.sh build

run: build
	$(CARGO) build --release --locked --package sockstamp-demo --package testbed
	@[ -z "$(SUDO)" ] || echo "The demo creates network namespaces and loads BPF programs: it runs as root, by sudo."
	$(SUDO) $(RELEASE)/sockstamp-demo

demo-two-hosts: build
	$(CARGO) build --release --locked --package sockstamp-demo
	$(SUDO) $(RELEASE)/sockstamp-demo-two-hosts

test:
	@scripts/deps.sh test
	@$(XTASK) test

test-all:
	@scripts/deps.sh test
	@$(XTASK) test --all

kernel-test:
	@scripts/deps.sh test
	$(CARGO) run --quiet --locked --package sockstamp-lab -- test $(K:%=--kernel %)

kernel-shell:
	@scripts/deps.sh test
	$(CARGO) run --quiet --locked --package sockstamp-lab -- shell --kernel $(or $(K),$(error name a kernel: make kernel-shell K=6.12))

arm64:
	@scripts/deps.sh arm64
	scripts/arm64.sh $(ARM64_ARGS)

# By the build without ARM64_ARGS.
kernel-arm64:
	@scripts/deps.sh arm64
	scripts/arm64.sh
	$(CARGO) run --quiet --locked --package sockstamp-lab -- doctor $(K:%=--kernel %) $(or $(CARGO_TARGET_DIR),target)/aarch64-unknown-linux-gnu/debug/sockstamp

kernel-series:
	@scripts/deps.sh test
	$(CARGO) run --quiet --locked --package sockstamp-lab -- series $(SERIES_ARGS)
	$(CARGO) run --quiet --locked --package sockstamp-lab -- test --kernel patched

# The selftests alone, on a kernel that looks for faults of memory and locks.
kernel-series-checked:
	@scripts/deps.sh test
	$(CARGO) run --quiet --locked --package sockstamp-lab -- series --checked

# The quick part of `make test`, before each commit.
check:
	@$(XTASK) test rustfmt clang-format clippy unit

bench: build
	@scripts/deps.sh bench
	$(CARGO) build --release --locked --package sockstamp-bench
	@[ -z "$(SUDO)" ] || echo "The benchmark loads BPF programs: it runs as root, by sudo."
	$(SUDO) $(RELEASE)/sockstamp-bench $(BENCH_ARGS)

# Times and rates need a machine without other load.
bench-agent: build
	@scripts/deps.sh bench
	@missed=; for what in figures cost programs; do \
		$(SUDO) unshare -n python3 scripts/agent-$$what.py $(RELEASE)/sockstamp || missed=yes; \
	done; [ -z "$$missed" ]

# Not after a build of its own, so that `sudo make install` compiles nothing as root.
install: install-library
	@test -x $(RELEASE)/sockstamp || { echo "nothing to install yet: run 'make build' first" >&2; exit 1; }
	install -D -m 755 $(RELEASE)/sockstamp $(DESTDIR)$(PREFIX)/bin/sockstamp
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 docs/man/*.1
	install -D -m 644 docs/completions/sockstamp.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/sockstamp
	install -D -m 644 docs/completions/_sockstamp $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_sockstamp
	install -D -m 644 docs/completions/sockstamp.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/sockstamp.fish

install-library: capi = crates/sockstamp-capi
install-library:
	@test -e $(RELEASE)/c-library/libsockstamp.so || { echo "nothing to install yet: run 'make build' first" >&2; exit 1; }
	install -D -m 755 $(RELEASE)/c-library/libsockstamp.so $(DESTDIR)$(LIBDIR)/libsockstamp.so.$(VERSION)
	ln -sf libsockstamp.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libsockstamp.so.0
	ln -sf libsockstamp.so.0 $(DESTDIR)$(LIBDIR)/libsockstamp.so
	install -D -m 644 $(RELEASE)/c-library/libsockstamp.a $(DESTDIR)$(LIBDIR)/libsockstamp.a
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include $(capi)/include/sockstamp.h
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' $(capi)/sockstamp.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/sockstamp.pc
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man3 docs/man/*.3

dist:
	@scripts/deps.sh dist
	packaging/dist.sh $(DIST)

fmt:
	$(CARGO) fmt --all
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml
	scripts/clang-format.sh

lint:
	@$(XTASK) test rustfmt clang-format clippy doc deny generated

clean:
	$(CARGO) clean
