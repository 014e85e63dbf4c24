#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# run.sh SOCKSTAMP [--scores] [NAME...]: run the loads of this folder, and print what stat said.
set -u
SOCKSTAMP=$(realpath "$1"); export SOCKSTAMP; shift
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
scores=""
[ "${1:-}" = --scores ] && { scores=scores.md; shift; }
[ $# -gt 0 ] || set -- $(ls fault-*.sh healthy-*.sh | sed 's/\.sh$//')
file_of() { # NAME: without fault- or healthy-, too
	local name
	for name in "${1%.sh}" "fault-$1" "healthy-$1"; do
		[ -e "$name.sh" ] && { echo "$name"; return; }
	done
	echo "run.sh: there is no load $1; see ls $PWD" >&2
	return 2
}
head_of() { sed -n "s/^# $2: //p" "$1.sh" | head -1; }
missing() {
  local one
  for one in $(head_of "$1" Needs); do command -v "$one" >/dev/null || echo "$one"; done
}
table="| load | true | said | |
|---|---|---|---|"
named=0 faults=0 silent=0 healthy=0 wrong=0
for name; do
	name=$(file_of "$name") || exit 2
	lacks=$(missing "$name")
	[ -z "$lacks" ] || { echo "$name: skipped, it needs $lacks"; continue; }
	also=$(head_of "$name" Also)
	said=$(ALL=$also unshare --mount --propagation private bash -c \
		"mkdir -p /run/netns && mount -t tmpfs none /run/netns && exec bash ./$name.sh" 2>&1)
	expected=$(head_of "$name" Say)
	case $name in
	fault-*)
		faults=$((faults + 1)) right=missed
		grep -qiE -- "$expected" <<<"$said" && grep -qiE -- "$also" <<<"$said" && right=yes
		;;
	*) healthy=$((healthy + 1)); [ -z "$said" ] && right=yes || right="false alarm" ;;
	esac
	case $name-$right in
	fault-*-yes) named=$((named + 1)) ;;
	healthy-*-yes) silent=$((silent + 1)) ;;
	*) wrong=$((wrong + 1)) ;;
	esac
	row="| ${name#*-} | $(head_of "$name" True) | ${said:-nothing} | $right |"
	echo "$row"
	table="$table
$row"
done
echo "named $named of $faults faults, silent in $silent of $healthy healthy loads"
[ -z "$scores" ] || cat >"$scores" <<END
## Scores of the zoo

\`tests/faults/run.sh\` runs ordinary programs with a fault, and healthy ones.
Misses stay in the table.

$table

Named: $named of $faults faults. Silent: $silent of $healthy healthy loads.
END
[ "$wrong" -eq 0 ]
