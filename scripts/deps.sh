#!/usr/bin/env bash
# Installs by apt what sockstamp needs on Debian 12, Ubuntu 24.04 and newer.
#
#   deps.sh build    to build it
#   deps.sh bench    to build it and run the benchmarks
#   deps.sh test     to build it and run every test
#   deps.sh dist     to build what a release has
#   deps.sh arm64    to build it for arm64, and boot arm64 kernels
#
# A second argument --simulate asks apt whether it could install them, and installs nothing.
#
# Asks dpkg first, and apt only for what is missing. Never calls sudo: without root it prints the
# line to run. The servers that tests start for themselves (containerd, nginx, postgresql,
# prometheus, redis) are installed, but neither started nor enabled.
set -euo pipefail

fail() {
	echo "deps.sh: $*" >&2
	exit 1
}

mode=${1:-}
case $mode in
build | bench | test | dist | arm64) ;;
*) fail "usage: deps.sh build|bench|test|dist|arm64 [--simulate]" ;;
esac
simulate=${2:-}
[ -z "$simulate" ] || [ "$simulate" = --simulate ] ||
	fail "usage: deps.sh build|bench|test|dist|arm64 [--simulate]"

# Plain sudo leaves the caller's cargo out of PATH.
if ! command -v cargo >/dev/null && [ -n "${SUDO_UID:-}" ]; then
	# shellcheck disable=SC2016 # The user's shell expands it.
	fail 'sudo finds no cargo: sudo env "PATH=$PATH" "RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}" make ...'
fi
command -v cargo >/dev/null || fail "cargo is not on PATH: install Rust 1.88 or newer (rustup)"
command -v apt-get >/dev/null ||
	fail "this needs Debian or Ubuntu; elsewhere install what this script lists by hand"

installed() { # PACKAGE
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing() { # PACKAGE...
	local package
	for package; do
		installed "$package" || echo "$package"
	done
}

as_root() {
	[ "$(id -u)" = 0 ]
}

# Packages of several versions: the first that is installed, else the first that apt knows.
refreshed=
first_of() { # PACKAGE...
	local package
	for package; do
		if installed "$package"; then
			found=$package
			return
		fi
	done
	if [ -z "$refreshed" ] && as_root; then
		apt-get update -qq
		refreshed=yes
	fi
	for package; do
		# `show` succeeds for a name that others mention, too.
		if [ -n "$(apt-cache madison "$package" 2>/dev/null)" ]; then
			found=$package
			return
		fi
	done
	as_root || fail "apt knows none of $*; its lists may be empty:" \
		"run 'sudo apt-get update', then this again"
	fail "apt knows none of $*"
}

# A system libbpf.so.1 is harmless; its headers and .pc file can be linked instead of the copy that
# we build.
if installed libbpf-dev; then
	echo "deps.sh: warning: libbpf-dev is installed. sockstamp builds and links its own libbpf;" >&2
	echo "  should a build pick up the system's by mistake, remove that package." >&2
fi

base=(gcc iproute2 libc6-dev libelf-dev make pkg-config zlib1g-dev) # iproute2: for the demo
if [ "$mode" = bench ]; then
	base+=(fping iperf3 iputils-ping nginx redis-server redis-tools tcpdump wrk)
elif [ "$mode" = test ]; then
	base+=(bind9-dnsutils bpftool curl dnsmasq-base fping g++ iperf3 iputils-ping jq nginx
		procps prometheus redis-server redis-tools sockperf tcpdump tmux util-linux wrk)
	base+=(python3 python3-venv) # For scripts/python.sh.
	base+=(tshark wireshark-common) # Readers of what `pcap` writes.
	# Commands that wait for their servers; dropbear-bin has no service.
	base+=(dropbear-bin openssh-client postgresql)
	base+=(containerd) # With runc: names of containers.
	# For the pages of report --html; on Ubuntu it is a snap, which tests cannot start.
	base+=(chromium)
	# For Apache Spark. Debian 12 has the first, 13 the other.
	first_of openjdk-{17,21}-jre-headless
	base+=("$found")
	base+=(lintian) # For the Debian package of the agent.
	base+=(mandoc valgrind) # For the C library. gcc brings the address sanitizer.
	base+=(binutils busybox-static kmod qemu-system-x86 xz-utils) # The lab's guests.
	base+=(mmdebstrap) # Bare trees of Debian, for scripts/bare.sh.
	# The kernel of kernel/series, and its selftests.
	base+=(bc bison flex libssl-dev openssl patch rsync xxd)
fi

if [ "$mode" = dist ] || [ "$mode" = test ]; then
	# A program without shared libraries, with its own libelf.
	base+=(autoconf automake autopoint bison flex gawk linux-libc-dev musl-tools)
	base+=(dpkg-dev rpm umoci xz-utils) # Packages, and the image.
fi

if [ "$mode" = arm64 ]; then
	base+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
	base+=(autoconf automake autopoint bison flex gawk) # For libelf's sources.
	# The lab's guests, and their programs.
	base+=(binutils busybox-static kmod mmdebstrap qemu-system-arm xz-utils)
fi

# Older clang loses the high half of 64-bit enum values, which BPF code reads from the kernel's
# types. CI compiles with the first of these, and the programs of the last three were only counted.
first_of clang-{19,18,17,16,20,21,22}
clang=${found#clang-}
# bindgen loads libclang while it runs: no -dev package needed.
base+=("clang-$clang" "libclang1-$clang")
[ "$mode" != test ] || base+=("clang-format-$clang")

mapfile -t wanted < <(missing "${base[@]}")
if [ ${#wanted[@]} = 0 ]; then
	exit 0
fi

if [ -n "$simulate" ]; then
	echo "deps.sh: could install ${wanted[*]}"
	[ -n "$refreshed" ] || ! as_root || apt-get update -qq
	apt-get install -qq --simulate --no-install-recommends "${wanted[@]}" >/dev/null
	exit
fi

if ! as_root; then
	echo "deps.sh: packages are missing. Install them, then run this again:" >&2
	echo "  sudo apt-get install --no-install-recommends ${wanted[*]}" >&2
	exit 1
fi

# Debian's way to say "start no service" to the packages' scripts. Ours only where the machine has
# none of its own.
policy=/usr/sbin/policy-rc.d
if ! [ -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi

echo "deps.sh: installing ${wanted[*]}"
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
[ -n "$refreshed" ] || apt-get update -qq
apt-get install -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "${wanted[@]}"

# Keep the servers that we installed from starting at the next boot, too.
if command -v systemctl >/dev/null; then
	for package in "${wanted[@]}"; do
		case $package in
		containerd | nginx | postgresql | prometheus | redis-server)
			systemctl disable --quiet "$package" ||
				echo "deps.sh: warning: $package starts at the next boot" >&2
			;;
		esac
	done
fi
