# Selftests of net that send and wait for some seconds.
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
