# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a server of Perl with a process for each connection holds a poll until it has news, and looks for these ten times a second.
# Say: ^$
# Needs: perl
. ./lib.sh || exit 1
pair
program server.pl <<'PL'
use IO::Socket::INET; use Time::HiRes 'time';
$SIG{CHLD} = 'IGNORE';
my $listener = IO::Socket::INET->new(LocalAddr => '10.77.0.2', LocalPort => 8000,
	Listen => 20, ReuseAddr => 1) or die;
while (my $client = $listener->accept) {
	next if fork;
	while (sysread $client, my $line, 1000) {
		my $news = time + 0.3 + rand 1.2;
		select undef, undef, undef, 0.1 while time < $news;
		syswrite $client, "news\n";
	}
	exit;
}
PL
start there perl "$WORK/server.pl"; listening there 8000
program ask.pl <<'PL'
use IO::Socket::INET;
my $server = IO::Socket::INET->new(PeerAddr => '10.77.0.2', PeerPort => 8000) or die;
while (1) { syswrite $server, "poll\n"; sysread $server, my $line, 1000 }
PL
start here perl "$WORK/ask.pl"
sleep 1; measure here
