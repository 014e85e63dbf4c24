# SPDX-License-Identifier: GPL-2.0-only
# True: At the server: a query waits for a row that another session has locked, and never ends.
# Say: postgres at :5432 does not answer.*lock that another session holds
# Needs: psql setpriv
AT=there; . ./fault-query-hangs.sh
