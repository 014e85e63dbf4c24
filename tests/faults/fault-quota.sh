# SPDX-License-Identifier: GPL-2.0-only
# True: A server that works 8 ms for each answer has a CPU quota of a tenth, and uses it up.
# Say: 8000.*(throttled|quota)
. ./lib.sh || exit 1
pair
group=/sys/fs/cgroup/faults-quota
[ ! -d /sys/fs/cgroup/cpu ] || group=/sys/fs/cgroup/cpu/faults-quota
mkdir -p "$group"
if [ -e "$group/cpu.max" ]; then echo "10000 100000" >"$group/cpu.max"; else echo 10000 >"$group/cpu.cfs_quota_us"; fi
server here 10.77.0.1 8000 --delay 0.008 --spin
echo "$LAST" >"$group/cgroup.procs"
client there 10.77.0.1 8000 --pause 0.15
sleep 1; measure here
kill "${STARTED[@]}"; sleep 0.5; rmdir "$group"
