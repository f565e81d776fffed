#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make run: shows a command in a network namespace of its own. CMD='...' runs something else there.
pasta=$1
if [ -n "$CMD" ]; then
	exec "$pasta" --config-net -- sh -c "$CMD"
fi
echo "\$ $pasta --config-net -- sh -c '...'"
"$pasta" --config-net -- sh -c '
	echo "-- in a namespace of my own, as user $(id -u) there; interfaces and addresses:"
	ip -br addr
	echo "-- routes:"
	ip -4 route; ip -6 route
	gateway=$(ip -4 route show default | sed -n "s/.* via \([^ ]*\).*/\1/p" | head -n 1)
	[ -n "$gateway" ] || gateway=$(ip -6 route show default | sed -n "s/.* via \([^ ]*\).*/\1/p" | head -n 1)
	if [ -z "$gateway" ]; then
		echo "-- the host has no default route: nothing outside to reach"
	elif ! command -v ping >/dev/null; then
		echo "-- no ping here to try the gateway with"
	elif ping -c 1 -W 2 "$gateway" >/dev/null 2>&1; then
		echo "-- the gateway $gateway answers to ping"
	else
		echo "-- no answer to ping from the gateway $gateway (offline, or ping not permitted)"
	fi
	echo "-- name servers:"
	sed -n "s/^nameserver //p" /etc/resolv.conf
'
status=$?
[ $status = 0 ] && echo "-- pasta ended with status 0: it works. Try: make run CMD='curl -s https://example.org/'"
exit $status
