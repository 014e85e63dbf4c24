# Runs the selftests of net in a guest, beside them: a line for each, and all that it said if it failed.
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

run scm_zc_notification
run scm_tx_timestamps
run msg_zerocopy.sh
# udpgso.sh, but for devices that need ethtool.
for family in -4 -6; do
	for how in 'dev_mtu -C' 'dev_mtu -C -s' 'dev_mtu -C -m' 'route_mtu -c'; do
		set -- $how
		device=$1
		shift
		run in_netns.sh ./udpgso.sh "test_$device" -- ./udpgso $family "$@"
	done
done
exit $failed
