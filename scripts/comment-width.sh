#!/usr/bin/env bash
# Check that no line of a comment in Rust or C is longer than 100 columns, except tables and code.
# rustfmt's own option for this, comment_width, needs a nightly toolchain.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck disable=SC2016
long=$(git ls-files -z '*.rs' '*.c' '*.h' ':!*/vmlinux.h' ':!kernel/series' | xargs -0 perl -CSD -ne '
	chomp;
	1 while s/^( *)\t/$1 . " " x (8 - length($1) % 8)/e;
	my $comment = m{^ *(//[/!]?|/\*)} || ($ARGV !~ /\.rs$/ && m{^ *\*});
	$code = !$code if m{^ *//[/!] ```};
	my $exempt = $code || m{^ *//[/!] +\|} || m{^ *//[/!]     };
	print "$ARGV:$.: ", length, " columns\n" if length > 100 && $comment && !$exempt;
	if (eof) { $code = 0; close ARGV }')
if [ -n "$long" ]; then
	echo "Comments are longer than 100 columns:" >&2
	echo "$long" >&2
	exit 1
fi
