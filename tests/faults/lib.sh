# SPDX-License-Identifier: GPL-2.0-only
# Sourced by each load: hosts, peers, and the measurement. $SOCKSTAMP is the binary.
set -u
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
WORK=$(mktemp -d /tmp/faults.XXXXXX)
STARTED=()
end() {
	local pid
	for pid in "${STARTED[@]}"; do kill -CONT "$pid"; kill "$pid"; done 2>/dev/null
	sleep 0.2
	for pid in "${STARTED[@]}"; do kill -9 "$pid"; done 2>/dev/null
	wait 2>/dev/null
	rm -rf "$WORK"
}
trap end EXIT
trap 'exit 130' INT TERM

# host NAME: a network namespace with a loopback device
host() { ip netns add "$1" && ip -n "$1" link set lo up; }
# pair [words of path.py]: hosts here (10.77.0.1) and there (10.77.0.2), joined by a veth or a path
pair() {
	host here; host there
	if [ $# -gt 0 ]; then
		python3 "$HERE/path.py" "$@" >"$WORK/path" 2>&1 & STARTED+=($!)
		until grep -qs ready "$WORK/path"; do sleep 0.05; done
		return
	fi
	ip -n here link add wan type veth peer name wan netns there
	ip -n here addr add 10.77.0.1/24 dev wan; ip -n there addr add 10.77.0.2/24 dev wan
	ip -n here link set wan up; ip -n there link set wan up
}
# far: hosts here (10.77.0.1) and there (10.78.0.2), and a router between them, which shows each of
# them under an address of its own: there is 10.77.0.2. Needs nft.
far() {
	host here; host there; host router
	ip -n here link add wan type veth peer name near netns router
	ip -n there link add wan type veth peer name far netns router
	ip -n here addr add 10.77.0.1/24 dev wan; ip -n router addr add 10.77.0.2/24 dev near
	ip -n there addr add 10.78.0.2/24 dev wan; ip -n router addr add 10.78.0.1/24 dev far
	ip -n here link set wan up; ip -n router link set near up
	ip -n there link set wan up; ip -n router link set far up
	on router sysctl -qw net.ipv4.ip_forward=1
	on router nft -f - <<-'END'
		table ip shown {
			chain there { type nat hook prerouting priority dstnat;
				iifname near dnat to 10.78.0.2; }
			chain here { type nat hook postrouting priority srcnat;
				oifname far masquerade; }
		}
	END
}
# on HOST COMMAND: run it there; start HOST COMMAND: and go on
on() { local at=$1; shift; ip netns exec "$at" "$@"; }
# (not by a function: its subshell would be ended in place of the program)
start() { ip netns exec "$@" >>"$WORK/log" 2>&1 & STARTED+=($!); LAST=$!; }
# listening HOST PORT: wait until it does
listening() {
	local try
	for try in $(seq 100); do
		on "$1" ss -Hlntu "sport = $2" | grep -q . && return
		sleep 0.05
	done
	echo "nothing listens on $2 of $1"; cat "$WORK/log"; exit 1
}
# server HOST ADDRESS PORT [peer.py's words]; client HOST ADDRESS PORT [peer.py's words]
server() { start "$1" python3 "$HERE/peer.py" serve "${@:2}"; listening "$1" "$3"; }
client() { start "$1" python3 "$HERE/peer.py" ask "${@:2}"; }
# tls HOST ADDRESS PORT: answer requests by TLS, with a certificate that nobody trusts
tls() {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$WORK/key" -out "$WORK/pem" -days 2 \
		-subj /CN=shop 2>/dev/null
	start "$1" python3 "$HERE/tls.py" "$2" "$3" "$WORK/pem" "$WORK/key"; listening "$1" "$3"
}
# program NAME: keep the text of standard input as $WORK/NAME, which can be run under that name
program() { cat >"$WORK/$1" && chmod +x "$WORK/$1"; }
# lines HOST ADDRESS PORT: serve lines; the text of standard input says what answer(peer) does
lines() {
	cat - "$HERE/lines.py" | program web.py
	start "$1" python3 "$WORK/web.py" "$2" "$3"; listening "$1" "$3"
}
# measure HOST [words of stat]: the findings, as the last lines
measure() {
	local at=$1; shift
	"$SOCKSTAMP" stat --netns "$at" --duration "${SECONDS_OF_ONE:-5}" "$@" >"$WORK/stat" 2>&1
	said
}
# ended HOST COMMAND: the same of a command, which ends by itself
ended() { on "$1" "$SOCKSTAMP" stat -- "${@:2}" >"$WORK/stat" 2>&1; said; }
said() {
	[ -z "${SHOW:-}" ] || cat "$WORK/stat"
	awk -v all="${ALL:-}" '/^ diagnosis: /{found++} /^ note: /{exit} all ? found : found==1' "$WORK/stat" |
		sed 's/^ *diagnosis: //; s/^ *//' | tr '\n' ' '
}
