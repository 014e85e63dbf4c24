#!/usr/bin/perl
# Runs SmokePing's FPing probe as its daemon does: smokeping.pl FPING HOST... SmokePing itself, which
# draws, is not loaded.
use strict;
use warnings;

BEGIN { $INC{"Smokeping.pm"} = 1 }
{ package Smokeping; our %opt; sub do_debuglog { } sub do_log { print "@_\n" } }
use Smokeping::probes::FPing;

my %properties = (
	binary => shift, protocol => 4, pings => 5, packetsize => 56, timeout => 1,
	mininterval => 0.01, hostinterval => 0.1, step => 300, offset => 0,
);
my $probe = Smokeping::probes::FPing->new(\%properties, {}, ("FPing") x 3);
my (%host, @trees);
for my $host (@ARGV) {
	my $tree = {};
	$host{"$tree"} = $host;
	push @trees, $tree;
	$probe->add($tree, $host);
}
$probe->ping();
for my $tree (sort { $host{$a} cmp $host{$b} } keys %{ $probe->{rtts} }) {
	print "$host{$tree}: @{ $probe->{rtts}{$tree} }\n";
}
