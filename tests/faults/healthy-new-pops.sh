# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: workers open a connection for each wait for a job (BLPOP, 2 s at most), and work half a second.
# Say: ^$
# Needs: redis-server redis-cli
. ./lib.sh || exit 1
pair
start there redis-server --save '' --appendonly no --protected-mode no --bind 10.77.0.2 --dir "$WORK"
listening there 6379
for worker in 1 2; do
	start here bash -c "while :; do redis-cli -h 10.77.0.2 blpop jobs 2; sleep 0.5; done"
done
start there bash -c "while :; do redis-cli -h 10.77.0.2 rpush jobs $worker; sleep 1.3; done"
sleep 2; SECONDS_OF_ONE=8; measure "${AT:-here}"
