# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong at the broker: it holds fetches of its consumers for 500 ms at most.
# Say: ^$
AT=there; . ./healthy-consumers.sh
