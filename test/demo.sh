#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make run: shows a command in a network namespace of its own, and two such namespaces that talk to each other; needs no
# network outside, and listens on loopback only. CMD='...' runs something else instead.
pasta=$1/pasta
nettool=$1/test/nettool
if [ -n "$CMD" ]; then
	exec "$pasta" --config-net -- sh -c "$CMD"
fi

echo "\$ $pasta --config-net -- sh -c '...'"
"$pasta" --config-net -- sh -c '
	echo "-- in a namespace of my own, as user $(id -u) there; interfaces and addresses:"
	ip -br addr
	echo "-- routes:"
	ip -4 route; ip -6 route
	if address=$(timeout 3 getent hosts deb.debian.org); then
		echo "-- the world outside: deb.debian.org is ${address%% *}"
	else
		echo "-- the world outside: no answer from a name server (offline?)"
	fi
' || exit

# A server in one namespace, with one port forwarded to it, and a client in another, which knows the loopback of the host by
# the address of its gateway. Ports are tried until one is free.
log=$(mktemp) || exit
trap 'kill $server 2>/dev/null; wait; rm -f "$log"' EXIT
trap 'exit 1' INT TERM
port=$((20000 + $$ % 10000))
for try in 1 2 3 4 5; do
	"$pasta" -q --config-net -t 127.0.0.1/$port -u 127.0.0.1/$port -- "$nettool" serve $port 1 >"$log" 2>&1 &
	server=$!
	while kill -0 $server 2>/dev/null && ! grep -q ready "$log"; do sleep 0.05; done
	grep -q ready "$log" && break
	port=$((port + 1))
done
if ! grep -q ready "$log"; then
	cat "$log"
	echo "-- no server in a namespace"
	exit 1
fi
echo
echo "\$ $pasta --config-net -t 127.0.0.1/$port -u 127.0.0.1/$port -- nettool serve $port 1 &"
echo "\$ $pasta --config-net -- sh -c '...'"
"$pasta" -q --config-net -- sh -c '
	gateway=$(ip -4 route show default | sed -n "s/.* via \([^ ]*\).*/\1/p" | head -n 1)
	[ -n "$gateway" ] || gateway=$(ip -6 route show default | sed -n "s/.* via \([^ ]*\) dev \([^ ]*\).*/\1%\2/p" | head -n 1)
	echo "-- from this namespace by $gateway, the host, to the server in the other one:"
	show() { what=$1; shift; figures=$("$@") && echo "$what: $figures"; }
	show "TCP up, a second        " "$0" stream $gateway $1 up 1 1 &&
	show "TCP down, a second      " "$0" stream $gateway $1 down 1 1 &&
	show "TCP, 1000 times and back" "$0" rr $gateway $1 tcp 1000 1 &&
	show "UDP, 1000 times and back" "$0" rr $gateway $1 udp 1000 1
' "$nettool" $port || { echo "-- the two did not reach each other"; exit 1; }
echo
echo "-- it works. A shell in a namespace: make run CMD=bash. What else there is: $pasta --help, man ./doc/passt.1"
