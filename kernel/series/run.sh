# Before net.sh and clock.sh: run a selftest. A line for each; the output of those that fail.
failed=0

run() { # PROGRAM ARGUMENT...
	title=$*
	program=$1
	shift
	if "./$program" "$@" >/tmp/output 2>&1; then
		echo "$title: $(tail -n 1 /tmp/output)"
	else
		echo "$title failed:"
		cat /tmp/output
		failed=1
	fi
}
