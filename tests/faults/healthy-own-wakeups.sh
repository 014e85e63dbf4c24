# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a server of Perl wakes its own loop by a pair of sockets, into which a handler of signals writes.
# Say: ^$
# Needs: perl
. ./lib.sh || exit 1
pair
program server.pl <<'PL'
use IO::Select; use IO::Socket::INET;
my $once = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1) or die;
my $wakes = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $once->sockport) or die;
my $woken = $once->accept; close $once;
my $listener = IO::Socket::INET->new(LocalAddr => '10.77.0.2', LocalPort => 8000,
	Listen => 20, ReuseAddr => 1) or die;
$SIG{ALRM} = sub { syswrite $wakes, '.'; alarm 3 }; alarm 1;
my $watched = IO::Select->new($listener, $woken);
while (1) {
	for my $ready ($watched->can_read) {
		if ($ready == $listener) { $watched->add($listener->accept); next }
		if (!sysread $ready, my $got, 1000) { $watched->remove($ready); close $ready; next }
		syswrite $ready, "hello\n" unless $ready == $woken;
	}
}
PL
start there perl "$WORK/server.pl"; listening there 8000
program ask.pl <<'PL'
use IO::Socket::INET;
my $server = IO::Socket::INET->new(PeerAddr => '10.77.0.2', PeerPort => 8000) or die;
while (1) {
	syswrite $server, "ask\n"; sysread $server, my $line, 1000;
	select undef, undef, undef, 0.1;
}
PL
start here perl "$WORK/ask.pl"
sleep 2; measure there
