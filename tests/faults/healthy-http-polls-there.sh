# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong at the clients: pages ask for news with a connection each, which come after 2 s at most.
# Say: ^$
AT=there; . ./healthy-http-polls.sh
