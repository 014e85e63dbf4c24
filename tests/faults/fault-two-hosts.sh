# SPDX-License-Identifier: GPL-2.0-only
# True: Two hosts have the address of the server; each tells so by ARP now and then.
# Say: 10.77.0.2.*link address of 10.77.0.2 on wan.*changed.*two hosts
. ./lib.sh || exit 1
host lan; ip -n lan link add name sw0 type bridge; ip -n lan link set dev sw0 up
for at in here there twin; do
	host $at
	ip -n $at link add wan type veth peer name $at netns lan
	ip -n lan link set dev $at master sw0 up; ip -n $at link set dev wan up
done
ip -n here addr add 10.77.0.1/24 dev wan
for at in there twin; do
	ip -n $at addr add 10.77.0.2/24 dev wan; server $at 10.77.0.2 8000
done
client here 10.77.0.2 8000 --timeout 3
start there python3 "$HERE/announce.py" wan 10.77.0.2
start twin python3 "$HERE/announce.py" wan 10.77.0.2 1.2
sleep 1; SECONDS_OF_ONE=7; measure here
