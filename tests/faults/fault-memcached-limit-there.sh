# SPDX-License-Identifier: GPL-2.0-only
# True: Memcached has as many connections as it may; it closes each new one at once. Seen where it runs.
# Say: memcached at :11211 were closed by it at once
# Needs: memcached setpriv
WHERE=there . ./fault-memcached-limit.sh
