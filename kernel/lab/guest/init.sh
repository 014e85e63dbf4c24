#!/bin/sh
# The first process of a guest: makes a small system, runs /lab/command, tells its exit status, and
# powers off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/tmp TERM=linux

mkdir -p /proc /sys /dev /tmp /run /root /var/log /var/lib
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
chmod 1777 /tmp
mount -t tmpfs -o mode=755 tmpfs /run
ln -s /run /var/run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
ln -s /proc/self/fd /dev/fd
[ ! -e /lab/without-btf ] || mount -t tmpfs tmpfs /sys/kernel/btf

hostname lab
for module in /lab/modules/*.ko; do
	case $module in
	*-dummy.ko) options=numdummies=0 ;;
	*-ifb.ko) options=numifbs=0 ;;
	*) options= ;;
	esac
	insmod "$module" $options || echo "lab: cannot load $module"
done
ip link set lo up

if [ -e /lab/interactive ]; then
	setsid cttyhack sh -l
	poweroff -f
fi

# Serial lines: the console, standard output, standard error, the exit status.
for line in /dev/ttyS1 /dev/ttyS2 /dev/ttyS3; do
	stty -F "$line" raw -echo
done
setsid /bin/sh /lab/command </dev/null >/dev/ttyS1 2>/dev/ttyS2
echo "$?" >/dev/ttyS3
poweroff -f
