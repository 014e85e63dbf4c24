# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: the same checks, seen at the service.
# Say: ^$
# Needs: openssl
AT=there . ./healthy-tls-checks.sh
