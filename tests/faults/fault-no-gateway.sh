# SPDX-License-Identifier: GPL-2.0-only
# True: The gateway to other networks does not answer (ARP): connects fail, or are given up.
# Say: ARP.*10.77.0.254
. ./lib.sh || exit 1
pair
on here ip route add 10.99.0.0/24 via 10.77.0.254
client here 10.99.0.5 8000 --timeout 2
client here 10.99.0.6 443
sleep 1; SECONDS_OF_ONE=10; measure here
