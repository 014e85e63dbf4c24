# SPDX-License-Identifier: GPL-2.0-only
# True: The server is stopped by a signal for 1.2 s at a time.
# Say: (python3|:8000).*stopped
. ./lib.sh || exit 1
pair
server here 10.77.0.1 8000
P=$LAST
client there 10.77.0.1 8000
(while sleep 1; do kill -STOP $P; sleep 1.2; kill -CONT $P; done) & STARTED+=($!)
sleep 1; SECONDS_OF_ONE=8; measure here
