#!/bin/busybox sh
# SPDX-License-Identifier: BSD-3-Clause
# The first process of the virtual machine: file systems, modules, and the agent. No network is set up.
export PATH=/bin
/bin/busybox --install -s /bin 2>/dev/null
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
mkdir -p /run /var/lib/dhcp /var/lib/dhcpcd /var/run
for m in $(cat /modules); do insmod /lib/modules/$m.ko; done
hostname guest; ip link set lo up; ulimit -n 65536
echo 0 > /proc/sys/net/ipv6/conf/all/accept_dad; echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad
echo "0 2147483647" > /proc/sys/net/ipv4/ping_group_range
agent "$(echo /dev/vport*p1)" &
echo guest-ready > /dev/console
while :; do wait; sleep 1; done
