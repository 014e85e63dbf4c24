#!/usr/bin/env bash
# Runs published programs that run ping or fping and read their output: ping-scripts.sh SOCKSTAMP.
# Each runs unchanged, once with ping of iputils and fping, and once with sockstamp in their places;
# but for figures, it must print the same. As root: it makes a network of its own.
#
# Packages of Debian are unpacked, not installed, into the user's cache folder, and those of pip are
# in an environment there.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
packages="cacti mon monitoring-plugins-basic monitoring-plugins-standard munin-common
	munin-plugins-core munin-plugins-extra netdata-plugins-bash prettyping smokeping"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sockstamp
tree=$cache/ping-scripts-$(cat "$0" "$here"/ping-scripts/* | sha256sum | cut -c 1-16)

install() {
	[ ! -d "$tree" ] || return 0
	mkdir -p "$cache"
	rm -rf "$tree.new"
	mkdir -p "$tree.new/deb" "$tree.new/root"
	(
		cd "$tree.new/deb"
		# Without apt's own user, which may not write here.
		# shellcheck disable=SC2086,SC2317 # a list; called
		download() { apt-get -o APT::Sandbox::User=root download -qq $packages; }
		download || { apt-get update -qq && download; }
		for package in *.deb; do dpkg -x "$package" ../root; done
	) >&2
	rm -rf "$tree.new/deb"
	mv "$tree.new" "$tree"
}

install
REQUIREMENTS=ping-scripts/requirements.txt "$here/python.sh" -c pass
[ "${1:-}" != --install ] || exit 0
sockstamp=$(realpath "$1")

# A network and mounts of its own: below, ping and fping are other programs.
if [ "${2:-}" != inside ]; then
	exec unshare --net --mount --propagation private "$0" "$sockstamp" inside
fi
ip link set lo up
ip link add near type veth peer name far
ip address add 10.88.0.1/24 dev near
ip link set near up
ip link set far up
alive=127.0.0.1
# Its ARP is not answered.
dead=10.88.0.9
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

with_ours() { # COMMAND...
	# shellcheck disable=SC2016 # for the inner shell
	unshare --mount --propagation private bash -c '
		for name in ping fping; do mount --bind "$0" "$(realpath "$(command -v $name)")"; done
		exec "$@"' "$sockstamp" "$@"
}

# Both begin without what the other has learned: a neighbour that failed a moment ago fails sooner.
forget() {
	ip neighbour flush dev near
}

# Numbers are N.
shape() {
	sed -E 's/[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?/N/g; s/[[:space:]]+$//'
}

reads() { # NAME PATTERN COMMAND...: it prints the same with both, and something like PATTERN
	local name=$1 pattern=$2
	shift 2
	local status=0
	forget
	"$@" >"$work/theirs" 2>&1 || status=$?
	echo "status $status" >>"$work/theirs"
	status=0
	forget
	with_ours "$@" >"$work/ours" 2>&1 || status=$?
	echo "status $status" >>"$work/ours"
	if ! grep -qE -- "$pattern" "$work/ours"; then
		echo "FAIL $name: nothing like $pattern in:"
		sed 's/^/    /' "$work/ours"
	elif ! diff <(shape <"$work/theirs") <(shape <"$work/ours") >"$work/diff"; then
		echo "FAIL $name prints something else (< theirs, > ours):"
		sed 's/^/    /' "$work/diff"
	else
		echo "ok   $name: $(grep -m1 -E -- "$pattern" "$work/ours" | cut -c 1-90)"
		return
	fi
	failures=$((failures + 1))
}

root=$tree/root
plugins=$root/usr/lib/nagios/plugins
munin=$root/usr/share/munin/plugins
export PATH=$PATH:/usr/sbin:/sbin

for host in $alive ::1; do
	reads "check_ping $host" '^PING OK - Packet loss = 0%, RTA = [0-9.]+ ms\|rta=' \
		"$plugins/check_ping" -H "$host" -w 100,20% -c 500,60% -p 2
done
reads "check_ping of a dead host" '^CRITICAL - Host Unreachable' \
	"$plugins/check_ping" -H $dead -w 100,20% -c 500,60% -p 2 -t 15
reads check_fping '^FPING OK - 127.0.0.1 \(loss=0%, rta=[0-9.]+ ms\)' \
	"$plugins/check_fping" -H $alive -w 100,20% -c 500,60% -n 3
reads "check_fping of a dead host" '^FPING CRITICAL - ' \
	"$plugins/check_fping" -H $dead -w 100,20% -c 500,60% -n 2
reads "munin ping_" '^ping.value [0-9.e-]+$' \
	env host=$alive MUNIN_LIBDIR="$root/usr/share/munin" sh "$munin/ping_"
reads "munin multiping" '^site2.value [0-9.e-]+$' \
	env "host=$alive ::1" MUNIN_LIBDIR="$root/usr/share/munin" sh "$munin/multiping"
reads "smokeping FPing" '^127.0.0.1: [0-9.e-]+ [0-9.e-]+ [0-9.e-]+' \
	perl "-I$root/usr/share/perl5" "$here/ping-scripts/smokeping.pl" "$(command -v fping)" \
	$alive 127.0.0.2 $dead
reads "mon fping.monitor" 'reachable hosts|^127.0.0.1' \
	perl "$root/usr/lib/mon/mon.d/fping.monitor" -r 1 -t 300 -a $alive $dead
reads "mon ping.monitor" "$dead" sh "$root/usr/lib/mon/mon.d/ping.monitor" $alive $dead
reads "netdata fping.plugin" '^SET rcv = 5' \
	env "NETDATA_USER_CONFIG_DIR=$here/ping-scripts" timeout --signal INT 3.3 \
	bash "$root/usr/lib/netdata/plugins.d/fping.plugin" 1
reads "cacti ping.pl" '^[0-9.]+' perl "$root/usr/share/cacti/site/scripts/ping.pl" $alive
# Lines that prettyping does not know are printed as they are: ours about stages, too.
reads prettyping '[0-9]+ \( *0%\) lost' bash -c '"$0" "$@" | grep -a lost' \
	"$root/usr/bin/prettyping" --nocolor --nounicode --noterminal -c 3 -i 0.2 $alive
for package in pingparsing jc fping emping ofunctions mass_ping; do
	reads "$package" 'alive|0\.[0-9]+' env REQUIREMENTS=ping-scripts/requirements.txt \
		"$here/python.sh" "$here/ping-scripts/packages.py" $package $alive $dead
done
# The one-liners of a thousand answers on the web.
reads "tail and cut" '^[0-9.]+$' \
	sh -c "ping -c 2 -i 0.2 $alive | tail -1 | awk '{print \$4}' | cut -d / -f 2"
reads "awk on time=" '^[0-9.]+$' \
	sh -c "ping -c 1 $alive | awk -F'time=' '/time=/ {split(\$2, t, \" \"); print t[1]}'"
reads "grep of the loss" '^100$' \
	sh -c "ping -c 1 -W 1 -w 1 $dead | grep -oP '[0-9.]+(?=% packet loss)'"
reads "fping -a of a network" '^127.0.0.3$' sh -c 'fping -a -q -g 127.0.0.0/29 2>/dev/null | sort'
reads "regular expressions" '^packets' \
	python3 "$here/ping-scripts/expressions.py" $alive $dead

[ $failures = 0 ] || { echo "$failures read something else"; exit 1; }
