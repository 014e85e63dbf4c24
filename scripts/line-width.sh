#!/usr/bin/env bash
# Check that no line of Rust, C or shell is longer than 100 columns. Strings may be, and tables: in
# documentation, and in code that rustfmt leaves alone; and the lines in which a load tells what is
# true of it. rustfmt checks neither comments nor macros.
set -euo pipefail
cd "$(dirname "$0")/.."

files=('*.rs' '*.c' '*.h' '*.sh' ':!*/vmlinux.h' ':!kernel/series')
# shellcheck disable=SC2016
long=$(git ls-files -z "${files[@]}" | xargs -0 perl -CSD -0777 -ne '
	# Leave of a string its quotes and its ends of lines, and of all else everything.
	s{(//[^\n]*|/\*.*?\*/)|(r(#*)".*?"\3|"(?:\\.|[^"\\])*")|\x27(?:\\.|[^\x27\\])\x27}
	 {$1 // ($2 ? q("") . "\n" x ($2 =~ tr/\n//) : q(""))}gse if $ARGV =~ /\.rs$/;
	s{"[^"\n]*"}{""}g if $ARGV =~ /\.sh$/;
	my ($number, $example, $table) = 0;
	for (split /\n/) {
		$number++;
		1 while s/^( *)\t/$1 . " " x (8 - length($1) % 8)/e;
		$example = !$example if m{^ *//[/!] ```};
		$table = 1, next if /^#\[rustfmt::skip\]/;
		$table = 0 if /^\S*[\])}];?$/;
		next if $ARGV =~ m{^tests/faults/} && /^# [A-Z]\w+: /;
		next if $table || m{^ *//[/!] +\|} || m{^ *//[/!]     } || $example;
		print "$ARGV:$number: ", length, " columns\n" if length > 100;
	}
	close ARGV')
if [ -n "$long" ]; then
	echo "Lines are longer than 100 columns:" >&2
	echo "$long" >&2
	exit 1
fi
