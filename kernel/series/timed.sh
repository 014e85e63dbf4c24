# Runs the selftests of net that compare times, as their own scripts do, which need Python or a second machine.
# A line for each; the output of those that fail.
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

# drivers/net/so_txtime.py: fq delivers in the order of times. Both ends are programs of their own.
so_txtime() { # FAMILY CLOCK SENT RECEIVED
	[ "$1" = 4 ] && address=127.0.0.1 || address=::1
	ends="-$1 -c $2 -S $address -D $address -t $(($(date +%s) + 2))000000000"
	./so_txtime $ends "$4" -r >output.receiver 2>&1 &
	sleep 0.2
	./so_txtime -m 100 $ends "$3" >output.sender 2>&1
	sent=$?
	wait $!
	result $((sent + $?)) "so_txtime $*"
}

tc qdisc replace dev lo root fq
for family in 4 6; do
	for clock in mono tai; do
		so_txtime $family $clock a,-1 a,-1
		so_txtime $family $clock a,0 a,0
		so_txtime $family $clock a,10 a,10
		so_txtime $family $clock a,10,b,20 a,10,b,20
		so_txtime $family $clock a,20,b,10 b,10,a,20
	done
done
tc qdisc del dev lo root

# Each case switches stamps of arrival on and off, and with them instructions of the kernel. With
# two processors, QEMU was seen to run a breakpoint that was gone.
./rxtimestamp >output 2>&1
result $? rxtimestamp

# txtimestamp.sh: 10 ms to the driver, 20 ms more to the receiver, and the same back.
ip link add ifb_netem0 type ifb
ip link set dev ifb_netem0 up
tc qdisc add dev lo root netem delay 10ms
tc qdisc add dev ifb_netem0 root netem delay 20ms
tc qdisc add dev lo handle ffff: ingress
tc filter add dev lo parent ffff: u32 match mark 0 0xffff action mirred egress redirect dev ifb_netem0
for how in '' -C -n; do
	for what in '' -u '-u -o 42' -r '-r -o 42' -R -P; do
		for family in '-4 -L 127.0.0.1' '-6 -L ::1'; do
			./txtimestamp $how $what -v 10000 -V 60000 -t 8000 -S 80000 $family >output 2>&1
			result $? "txtimestamp $how $what $family"
		done
	done
done
exit $failed
