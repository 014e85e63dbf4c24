# SPDX-License-Identifier: GPL-2.0-only
# True: The same, seen at the service.
# Say: connections at python3 at :443 ended in the TLS handshake.*certificate
# Needs: openssl
AT=there . ./fault-rejected-certificates.sh
