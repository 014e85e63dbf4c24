# SPDX-License-Identifier: GPL-2.0-only
# True: Without SYN cookies, SYNs of many addresses fill three quarters of what may be half open; a service gets no more clients, although its queue is long.
# Say: (SYN|half-open).*(many addresses|addresses)
export BACKLOG=128
. ./fault-syn-flood.sh
