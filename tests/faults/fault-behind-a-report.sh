# SPDX-License-Identifier: GPL-2.0-only
# True: A server of Perl computes a report for 600 ms, again and again; its only client, measured alone, waits for that for most of the time.
# Say: 10.77.0.2:8000 takes .* to answer perl.*its thread perl (ran|waited)
# Needs: perl
. ./lib.sh || exit 1
pair
program server.pl <<'PL'
use IO::Select; use IO::Socket::INET; use Time::HiRes 'time';
my $listener = IO::Socket::INET->new(LocalAddr => '10.77.0.2', LocalPort => 8000,
	Listen => 20, ReuseAddr => 1) or die;
my $watched = IO::Select->new($listener);
my $next = time;
while (1) {
	for my $ready ($watched->can_read(0.1)) {
		if ($ready == $listener) { $watched->add($listener->accept); next }
		if (!sysread $ready, my $got, 1000) { $watched->remove($ready); close $ready; next }
		syswrite $ready, "hello\n";
	}
	next if time < $next;
	my ($end, $sum) = (time + 0.6, 0);
	while (time < $end) { $sum += $_ for 1 .. 1000 }
	$next = time + 0.3;
}
PL
start there perl "$WORK/server.pl"; listening there 8000
program ask.pl <<'PL'
use IO::Socket::INET;
my $server = IO::Socket::INET->new(PeerAddr => '10.77.0.2', PeerPort => 8000) or die;
while (1) {
	syswrite $server, "ask\n"; sysread $server, my $line, 1000;
	select undef, undef, undef, 0.04;
}
PL
start here perl "$WORK/ask.pl"
sleep 1; measure here
