# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: workers here wait for jobs of a queue elsewhere (BLPOP), and tell it of them on other connections.
# Say: ^$
# Needs: redis-server
AT=there; . ./healthy-blocking-pops.sh
