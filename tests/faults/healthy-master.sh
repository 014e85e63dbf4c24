# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a replica of Redis reports its offset to this master each second, and gets what is written.
# Say: ^$
# Needs: redis-server redis-cli
. ./lib.sh || exit 1
pair
redis() {
	mkdir -p "$WORK/$1"
	start "$1" redis-server --save '' --appendonly no --protected-mode no \
		--bind "$2" --dir "$WORK/$1" "${@:3}"
	listening "$1" 6379
}
redis here 10.77.0.1; redis there 10.77.0.2 --replicaof 10.77.0.1 6379 --repl-diskless-load swapdb
start there redis-cli -h 10.77.0.1 -r 200 -i 0.3 set key value
sleep 3; SECONDS_OF_ONE=8; measure here
