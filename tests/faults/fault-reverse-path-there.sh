# SPDX-License-Identifier: GPL-2.0-only
# True: SYNs come by another device than the server's route to their sender; its reverse path filter drops them.
# Say: 10.78.0.2:8000.*reverse path filter
. ./lib.sh || exit 1
pair
ip -n here link add back type veth peer name back netns there
ip -n here addr add 10.79.0.1/24 dev back; ip -n there addr add 10.79.0.2/24 dev back
ip -n here link set back up; ip -n there link set back up
ip -n there addr add 10.78.0.2/32 dev lo
ip -n here route add 10.78.0.2 via 10.77.0.2
ip -n there route add 10.77.0.1 via 10.79.0.1
on there sysctl -qw net.ipv4.conf.all.rp_filter=1
server there 10.78.0.2 8000
ip -n here neigh replace 10.77.0.2 lladdr "$(on there cat /sys/class/net/wan/address)" dev wan
client here 10.78.0.2 8000 --timeout 2
sleep 1; measure here
