# SPDX-License-Identifier: GPL-2.0-only
# True: One of four workers of a service over UDP, each with a socket of its own at one port, is stopped; clients ask by a new socket each, and again after 500 ms.
# Say: requests of perl to 10.77.0.2:7000 got no answer and were asked again
# Needs: perl
. ./lib.sh || exit 1
pair
program worker.pl <<'PL'
use IO::Socket::INET;
my $socket = IO::Socket::INET->new(LocalAddr => '10.77.0.2', LocalPort => 7000,
	Proto => 'udp', ReusePort => 1) or die;
while (1) { $socket->recv(my $question, 1500); $socket->send("answer to $question") }
PL
for _ in 1 2 3 4; do start there perl "$WORK/worker.pl"; done; sleep 0.5
kill -STOP "$LAST"
program ask.pl <<'PL'
use IO::Select; use IO::Socket::INET;
while (1) {
	for (1 .. 5) {
		my $socket = IO::Socket::INET->new(PeerAddr => '10.77.0.2', PeerPort => 7000,
			Proto => 'udp') or die;
		$socket->send('question');
		next unless IO::Select->new($socket)->can_read(0.5);
		$socket->recv(my $answer, 1500);
		last;
	}
	select undef, undef, undef, 0.05;
}
PL
start here perl "$WORK/ask.pl"
sleep 1; measure here
