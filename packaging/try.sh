#!/usr/bin/env bash
# Starts what a release has where people start it: try.sh DIRECTORY, as packaging/dist.sh wrote it.
# The program runs in trees of Debian 11, 12 and 13 and of busybox alone, packages are installed and
# removed, a program in C is built with the library, and the image is started by runc. Needs root,
# mmdebstrap, lintian, busybox-static, rpm, umoci, runc, jq, gcc and curl.
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

files() { # TREE
	(cd "$1" && find bin boot etc home lib opt root sbin srv usr var \
		\( -path var/cache -o -path var/lib/apt -o -path var/lib/dpkg -o -path var/log \) \
		-prune -o -print | sort)
}

apt() { # TREE COMMAND...
	inside "$1" apt-get -qq -o Dpkg::Use-Pty=0 "${@:2}" >/dev/null
}

# Seconds from the package to a table of what a client and a server said to each other.
first_answer() { # TREE
	local begin end
	begin=$(date +%s%N)
	apt "$1" install "/$(basename "$release"/sockstamp_*.deb)"
	# shellcheck disable=SC2016 # The inner perl expands it.
	inside "$1" sockstamp stat -- perl -MIO::Socket::INET -e '
		my $server = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1");
		if (fork) { my $c = $server->accept; <$c>; print $c "answer\n" }
		else { my $c = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $server->sockport);
			print $c "question\n"; <$c> }' >"$work/answer" 2>&1
	end=$(date +%s%N)
	grep -q '^ *rx\.' "$work/answer" || fail "$1: no answer: $(cat "$work/answer")"
	awk "BEGIN { printf \"%.1f\", ($end - $begin) / 1e9 }"
}

# The mirror of this host, as its apt knows it.
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' |
	head -n 1)

tree_of() { # SUITE
	mmdebstrap --quiet --variant=minbase "$1" "$work/$1" "$mirror"
}

(cd "$release" && sha256sum --quiet --check SHA256SUMS)
lintian --allow-root --fail-on error,warning "$release"/*.deb
tar --extract --file "$release"/sockstamp-*-linux.tar.xz -C "$work"
program=$(echo "$work"/sockstamp-*-linux/sockstamp)

mkdir -p "$work/busybox/bin"
cp /bin/busybox "$program" "$work/busybox/bin/"
measures "$work/busybox" /bin/sockstamp

for suite in bullseye bookworm trixie; do
	tree=$work/$suite
	if ! mmdebstrap --quiet --variant=minbase "$suite" "$tree" "$mirror"; then
		echo "SKIP $suite: the mirror has no such release any more"
		continue
	fi
	cp "$program" "$tree/usr/local/bin/"
	measures "$tree" /usr/local/bin/sockstamp
	rm "$tree/usr/local/bin/sockstamp"
	if [ "$suite" != bullseye ]; then
		cp "$release"/*.deb "$tree/"
		before=$(files "$tree")
		seconds=$(first_answer "$tree")
		echo "try.sh: $suite: from the package to an answer: $seconds s"
		apt "$tree" install "/$(basename "$release"/libsockstamp0_*.deb)"
		measures "$tree" /usr/bin/sockstamp
		apt "$tree" purge sockstamp libsockstamp0
		left=$(comm -3 <(echo "$before") <(files "$tree"))
		[ -z "$left" ] || fail "$suite: the packages leave behind, or take away: $left"
		echo "try.sh: $suite: nothing is left of the packages"
	fi
	rm -rf --one-file-system "$tree"
done

# The library, as a program in C gets it.
for package in libsockstamp0 libsockstamp-dev; do
	dpkg-deb --extract "$release/$package"_*.deb "$work/library"
done
folder=$work/library/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
example=crates/sockstamp-capi/examples/udp_request.c
# shellcheck disable=SC2046 # Words, as pkg-config prints them.
cc -o "$work/example" "$(dirname "$0")/../$example" \
	$(PKG_CONFIG_PATH=$folder/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/library \
		pkg-config --cflags --libs sockstamp)
coproc echoes {
	perl -MIO::Socket::INET -e '$| = 1;
		my $socket = IO::Socket::INET->new(Proto => "udp", LocalAddr => "127.0.0.1");
		print $socket->sockport, "\n"; $socket->recv(my $said, 2048); $socket->send($said)'
}
read -r port <&"${echoes[0]}"
LD_LIBRARY_PATH=$folder "$work/example" 127.0.0.1 "$port" | sed "s/^/try.sh: $(basename "$example"): /"

# The package of rpm, in a tree that has no more than a shell.
ln -s busybox "$work/busybox/bin/sh"
rpm --root "$work/busybox" --install --nodeps --ignoreos "$release"/*.rpm 2>/dev/null
measures "$work/busybox" /usr/bin/sockstamp
rpm --root "$work/busybox" --erase sockstamp 2>/dev/null
left=$(find "$work/busybox"/{etc,usr} -name '*sockstamp*')
[ -z "$left" ] || fail "the package of rpm leaves behind: $left"
echo "try.sh: nothing is left of the package of rpm"

# The image's agent, as a container that sees the host, by runc.
mkdir "$work/layout" "$work/bundle"
tar --extract --file "$release"/*.oci.tar -C "$work/layout"
umoci unpack --image "$work/layout:$(sed -n 's/.*"org.opencontainers.image.ref.name":"\([^"]*\)".*/\1/p' \
	"$work/layout/index.json")" "$work/bundle" >/dev/null
jq '.process.terminal = false | .process.capabilities[] = ["CAP_BPF", "CAP_PERFMON",
	"CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_SYSLOG"]
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
curl --silent --fail 127.0.0.1:9779/metrics >"$work/metrics" || true
grep -q '^sockstamp_' "$work/metrics" || fail "the image serves nothing: $(cat "$work/log")"
echo "try.sh: the image serves metrics"
