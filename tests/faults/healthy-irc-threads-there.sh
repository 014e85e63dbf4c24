# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: the same chat; its server has a thread for each of the people.
# Say: ^$
THREADS=1 . ./healthy-irc-there.sh
