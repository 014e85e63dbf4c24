# Runs the selftests of net in a guest, beside them: a line for each, and all that it said if it failed.
failed=0

run() {
	if "./$1" >"/tmp/$1" 2>&1; then
		echo "$1: $(tail -n 1 "/tmp/$1")"
	else
		echo "$1 failed:"
		cat "/tmp/$1"
		failed=1
	fi
}

run scm_zc_notification
run scm_tx_timestamps
run msg_zerocopy.sh
exit $failed
