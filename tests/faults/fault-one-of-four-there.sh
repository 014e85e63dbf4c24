# SPDX-License-Identifier: GPL-2.0-only
# True: One of four processes that share a port (SO_REUSEPORT) is stopped; seen at the server.
# Say: wait to be accepted by python3 at :8000.*tasks of PID [0-9]+ sleep: they are stopped
AT=there; . ./fault-one-of-four.sh
