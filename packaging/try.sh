#!/usr/bin/env bash
# Starts what a release has where people start it: try.sh DIRECTORY, as packaging/dist.sh wrote it.
# The program runs in trees of Debian 11 and 12 and of busybox alone, packages are installed and
# removed, and the image is started by runc. Needs root, mmdebstrap, busybox-static, umoci, runc, jq
# and curl.
set -euo pipefail
release=$(realpath "$1")
work=$(mktemp -d /var/tmp/sockstamp-release.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT

fail() {
	echo "try.sh: $*" >&2
	exit 1
}

# In namespaces of its own: its mounts and processes end with it.
inside() { # TREE COMMAND...
	# shellcheck disable=SC2016 # The inner shell expands it.
	unshare --mount --pid --fork --kill-child bash -euc '
		tree=$1
		shift
		mount --bind "$tree" "$tree"
		mkdir -p "$tree"/{proc,sys,dev}
		mount -t proc proc "$tree/proc"
		mount --rbind /sys "$tree/sys"
		touch "$tree/dev/null"
		mount --bind /dev/null "$tree/dev/null"
		exec chroot "$tree" "$@"
	' inside "$@"
}

measures() { # TREE PROGRAM
	inside "$1" "$2" stat --duration 100ms >"$work/stat"
	inside "$1" "$2" doctor >"$work/doctor" || true
	grep -Eq '^  self-test +[1-9][0-9]* of ' "$work/doctor" || fail "$1: it measures no message"
	echo "try.sh: $(basename "$1"): $(inside "$1" "$2" --version) measures"
}

# The mirror of this host, as its apt knows it.
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' |
	head -n 1)

tree_of() { # SUITE
	mmdebstrap --quiet --variant=minbase "$1" "$work/$1" "$mirror"
}

tar --extract --file "$release"/sockstamp-*-linux.tar.xz -C "$work"
program=$(echo "$work"/sockstamp-*-linux/sockstamp)

mkdir -p "$work/busybox/bin"
cp /bin/busybox "$program" "$work/busybox/bin/"
measures "$work/busybox" /bin/sockstamp

for suite in bullseye bookworm; do
	if ! tree_of "$suite"; then
		echo "SKIP $suite: the mirror has no such release any more"
		continue
	fi
	cp "$program" "$work/$suite/usr/local/bin/"
	measures "$work/$suite" /usr/local/bin/sockstamp
	rm "$work/$suite/usr/local/bin/sockstamp"
	[ "$suite" = bookworm ] || continue
	before=$(cd "$work/$suite" && find etc usr lib | sort)
	cp "$release"/*.deb "$work/$suite/"
	inside "$work/$suite" bash -c 'dpkg --install /sockstamp_*.deb /libsockstamp0_*.deb' >/dev/null
	measures "$work/$suite" /usr/bin/sockstamp
	inside "$work/$suite" bash -c 'dpkg --purge sockstamp libsockstamp0' >/dev/null
	left=$(comm -13 <(echo "$before") <(cd "$work/$suite" && find etc usr lib | sort))
	[ -z "$left" ] || fail "the package leaves behind: $left"
done

# The image's agent, as a container that sees the host, by runc.
mkdir "$work/layout" "$work/bundle"
tar --extract --file "$release"/*.oci.tar -C "$work/layout"
umoci unpack --image "$work/layout:$(sed -n 's/.*"org.opencontainers.image.ref.name":"\([^"]*\)".*/\1/p' \
	"$work/layout/index.json")" "$work/bundle" >/dev/null
jq '.process.terminal = false | .process.capabilities[] += ["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN",
	"CAP_SYS_PTRACE", "CAP_SYS_ADMIN", "CAP_SYS_RESOURCE", "CAP_DAC_READ_SEARCH"]
	| .linux.namespaces |= map(select(.type | IN("network", "pid", "cgroup") | not))
	| .process.args = ["/usr/bin/sockstamp", "agent", "--listen", "127.0.0.1:9779"]' \
	"$work/bundle/config.json" >"$work/config" && mv "$work/config" "$work/bundle/config.json"
name=sockstamp-release-$$
runc run --bundle "$work/bundle" --detach "$name" </dev/null >"$work/log" 2>&1 || fail "$(cat "$work/log")"
trap 'runc delete --force "$name"; rm -rf --one-file-system "$work"' EXIT
for _ in $(seq 100); do
	! curl --silent --fail 127.0.0.1:9779/readyz >/dev/null || break
	sleep 0.1
done
curl --silent --fail 127.0.0.1:9779/metrics | grep -q '^sockstamp_' || fail "the image serves nothing: $(cat "$work/log")"
echo "try.sh: the image serves metrics"
