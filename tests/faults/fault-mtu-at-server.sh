# SPDX-License-Identifier: GPL-2.0-only
# True: Packets above 1300 bytes vanish on the way to the clients: small answers arrive, large ones do not, and are given up after 2 s.
# Say: python3.*:8001.*(full-size|MTU)|10\.77\.0\.2.*(full-size|MTU)
. ./lib.sh || exit 1
pair --delay 0.005 --most 1300
server here 10.77.0.1 8000
server here 10.77.0.1 8001 --size 20000
client there 10.77.0.1 8000
client there 10.77.0.1 8001 --size 20000 --timeout 2
sleep 1; measure here
