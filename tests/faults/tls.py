# SPDX-License-Identifier: GPL-2.0-only
"""Answer one request per connection by TLS: tls.py ADDRESS PORT CERTIFICATE KEY"""
import socket
import ssl
import sys
import threading

address, port, certificate, key = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)


def serve(client):
    try:
        with context.wrap_socket(client, server_side=True) as client:
            if client.recv(1000):
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    except OSError:
        client.close()


listener = socket.create_server((address, int(port)))
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
