# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a sleepy device wakes up by a question, and answers the next one.
# Say: ^$
. ./lib.sh || exit 1
pair
start there python3 "$HERE/datagrams.py" serve 10.77.0.2 5683 --sleepy; listening there 5683
start here python3 "$HERE/datagrams.py" ask 10.77.0.2 5683
sleep 1; measure here
