#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# run.sh BINARY [DAY...]: run the bad days, each for $SECONDS_OF_ONE seconds; needs root and the
# tools of scripts/deps.sh.
set -u
cd "$(dirname "$0")" || exit 1
SOCKSTAMP=$(realpath -e "$OLDPWD/$1") || SOCKSTAMP=$(realpath -e "$1") || exit 1
export SOCKSTAMP
shift
[ $# -gt 0 ] || set -- sigstop frozen memory full-disk read-only namespaces ipv6-flood
failed=0
for day; do
	bash "$day.sh" || { echo "FAILED $day"; failed=1; }
done
exit $failed
