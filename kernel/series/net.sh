# Runs the selftests of sockets in a guest whose clock counts instructions, so that times are the same on every host. What
# their own scripts do beyond it needs bash, Python or a second machine. A line a test; the output of those that fail.
failed=0

result() { # STATUS TITLE
	if [ "$1" = 0 ]; then
		echo "ok $2"
	else
		echo "not ok $2"
		cat output*
		failed=1
	fi
	rm -f output*
}

run() { # TITLE COMMAND...
	title=$1
	shift
	"$@" >output 2>&1
	result $? "$title"
}

# Both ends of a test are programs of their own.
pair() { # TITLE RECEIVER SENDER
	sh -c "$2" >output.receiver 2>&1 &
	sleep 0.2
	sh -c "$3" >output.sender 2>&1
	sent=$?
	wait $!
	result $((sent + $?)) "$1"
}

./sendmsg_copy_back >output 2>&1
status=$?
result $status "sendmsg_copy_back, $(grep -o 'pass:.*' output)"

# As msg_zerocopy.sh, but over loopback.
for family in 4 6; do
	[ $family = 4 ] && address=127.0.0.1 || address=::1
	for protocol in tcp udp; do
		ends="-$family -S $address -D $address -C 0"
		pair "msg_zerocopy -$family $protocol" \
			"./msg_zerocopy $ends -t 1 -r $protocol" "./msg_zerocopy $ends -t 0 -z -Z 0 $protocol"
	done
done

# As drivers/net/so_txtime.py: delivery by fq in the order of times.
tc qdisc replace dev lo root fq
for family in 4 6; do
	[ $family = 4 ] && address=127.0.0.1 || address=::1
	for clock in mono tai; do
		for packets in 'a,-1 a,-1' 'a,0 a,0' 'a,10 a,10' 'a,10,b,20 a,10,b,20' 'a,20,b,10 b,10,a,20'; do
			ends="-$family -c $clock -S $address -D $address -t $(($(date +%s) + 2))000000000"
			pair "so_txtime -$family -c $clock $packets" \
				"./so_txtime $ends ${packets#* } -r" "./so_txtime -m 100 $ends ${packets% *}"
		done
	done
done
tc qdisc del dev lo root

# As txtimestamp.sh: 10 ms to the driver, 20 ms more to the receiver, and the same back.
ip link add ifb_netem0 type ifb
ip link set dev ifb_netem0 up
tc qdisc add dev lo root netem delay 10ms
tc qdisc add dev ifb_netem0 root netem delay 20ms
tc qdisc add dev lo handle ffff: ingress
tc filter add dev lo parent ffff: u32 match mark 0 0xffff action mirred egress redirect dev ifb_netem0
for how in '' -C -n; do
	for what in '' -u '-u -o 42' -r '-r -o 42' -R -P; do
		for family in '-4 -L 127.0.0.1' '-6 -L ::1'; do
			run "txtimestamp $how $what $family" \
				./txtimestamp $how $what -v 10000 -V 60000 -t 8000 -S 80000 $family
		done
	done
done
exit $failed
