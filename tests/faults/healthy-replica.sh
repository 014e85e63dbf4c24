# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a replica of Redis follows its master, which gets a write in 300 ms.
# Say: ^$
# Needs: redis-server redis-cli
. ./lib.sh || exit 1
pair
redis() {
	start "$1" redis-server --save '' --appendonly no --protected-mode no \
		--bind "$2" --dir "$WORK" "${@:3}"
	listening "$1" 6379
}
redis there 10.77.0.2; redis here 10.77.0.1 --replicaof 10.77.0.2 6379 --repl-diskless-load swapdb
start there redis-cli -h 10.77.0.2 -r 100 -i 0.3 set key value
sleep 3; measure here
