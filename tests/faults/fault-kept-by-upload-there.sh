# SPDX-License-Identifier: GPL-2.0-only
# True: A server of one task reads a slow upload of 10.77.0.3 for 2.5 s; other clients wait to be accepted.
# Say: wait to be accepted by python3 at :8000.*for data of one client, 10.77.0.3
AT=there; . ./fault-kept-by-upload.sh
