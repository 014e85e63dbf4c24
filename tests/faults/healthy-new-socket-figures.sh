# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: programs send figures of the same length from a new socket each, keep it for 50 ms, and nobody answers; one asks a service beside, too.
# Say: ^$
# Needs: perl
. ./lib.sh || exit 1
pair
program figures.pl <<'PL'
use IO::Socket::INET;
while (1) {
	my $socket = IO::Socket::INET->new(PeerAddr => '10.77.0.2', PeerPort => 8125,
		Proto => 'udp') or die;
	$socket->send('jobs:1|c');
	select undef, undef, undef, 0.05;
}
PL
start there python3 "$HERE/datagrams.py" serve 10.77.0.2 7000; listening there 7000
start there python3 -c 'import socket; s = socket.socket(2, 2); s.bind(("10.77.0.2", 8125))
while True: s.recv(1500)'; listening there 8125
start here perl "$WORK/figures.pl"
start here python3 "$HERE/datagrams.py" ask 10.77.0.2 7000
sleep 1; measure here
