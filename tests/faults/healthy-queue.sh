# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: workers wait for jobs, one in 600 ms.
# Say: ^$
# Needs: redis-server redis-cli
. ./lib.sh || exit 1
host one
start one redis-server --save '' --appendonly no --bind 127.0.0.1; listening one 6379
start one bash -c 'while :; do redis-cli blpop jobs 5; done'
start one bash -c 'redis-cli -r 100 -i 0.6 rpush jobs x'
sleep 1; measure one
