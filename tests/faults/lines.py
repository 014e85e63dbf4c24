# SPDX-License-Identifier: GPL-2.0-only
# The end of a program of lib.sh's lines(): a thread for each connection has answer(peer), which the
# program begins with, called for each line.
import socket, sys, threading
def serve(peer):
    for _ in peer.makefile("rb"):
        answer(peer)
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=128)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
