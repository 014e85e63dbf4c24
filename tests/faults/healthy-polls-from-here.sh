# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: clients here poll a server for news, and ask for pages on other connections.
# Say: ^$
AT=there; . ./healthy-polls-beside.sh
