# SPDX-License-Identifier: BSD-3-Clause
"""DHCPv6 clients and the kernel's autoconfiguration, in a namespace behind pasta without --config-net: address, routes, resolver
and traffic that flows. As test_dhcp_clients.py, with IPv6."""
import json

import pytest
from netbed import PEER
from test_dhcp_clients import PRIVATE

NAMES = "--dhcp-dns --dhcp-search -D 2001:db8:9::53 -D 2001:db8:a::53 -S 'a.example b.example'"
# The kernel takes the router from advertisements; its own addresses by them are left out where a client is to get one.
UP = """
echo 2 > /proc/sys/net/ipv6/conf/eth0/accept_ra
echo {autoconf} > /proc/sys/net/ipv6/conf/eth0/autoconf
echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad
ip link set eth0 up
"""
ROUTER = "until ip -6 route | grep -q '^default via fe80'; do sleep 0.02; done\n"
SHOW = f"""
echo; echo ==addresses; ip -j -6 addr show dev eth0 scope global; echo ==routes; ip -j -6 route; echo ==resolv; cat /etc/resolv.conf
echo; echo ==ping; ping -6 -c1 -W5 {PEER[6]}
"""
# Only the second line, as dhclient calls it: the address it is told.
DHCLIENT = "dhclient -6 -v -1 -pf /run/pid -lf /var/lib/dhcp/leases eth0 2>&1"
CLIENTS = {
    "dhclient": UP.format(autoconf=0) + ROUTER + DHCLIENT + SHOW,
    # It is content with an advertisement; the lease comes after that. The hook runs last of all, when resolv.conf is written.
    "dhcpcd": UP.format(autoconf=0) + "echo '[ \"$reason\" != BOUND6 ] || : > /run/bound' > /etc/dhcpcd.exit-hook\n"
              "dhcpcd -6 eth0 2>&1; until [ -e /run/bound ]; do sleep 0.02; done\n" + SHOW + "dhcpcd -6 -x eth0 2>&1; true",
}


class Guest:
    """What a client made of the network."""

    def __init__(self, bed, args, script, timeout=60):
        self.pasta = bed.pasta_bg(args)
        r = self.pasta.guest(["unshare", "-m", "--propagation", "private", "sh", "-c", PRIVATE, "sh", bed.tmp, script], timeout)
        self.text, *parts = r.out.split("\n==")
        parts = dict(p.split("\n", 1) for p in parts)
        link = [a for a in json.loads(parts["addresses"]) if a]
        self.addresses = {(a["local"], a["prefixlen"]) for a in (link[0]["addr_info"] if link else []) if "local" in a}
        self.routes = {(r["dst"], r.get("gateway")) for r in json.loads(parts["routes"])}
        self.resolv = [line.split() for line in parts["resolv"].splitlines() if line.strip() and line[0] != "#"]
        self.ping = parts["ping"]

    def nameservers(self):
        return [words[1] for words in self.resolv if words[0] == "nameserver"]

    def domains(self):
        return [w.rstrip(".") for words in self.resolv if words[0] == "search" for w in words[1:]]

    def router(self):
        """Of the default route."""
        return {via for dst, via in self.routes if dst == "default"}


@pytest.mark.parametrize("client", CLIENTS)
def test_lease(bed, client):
    g = Guest(bed, NAMES, CLIENTS[client])
    assert ("2001:db8:9::2", 128) in g.addresses or ("2001:db8:9::2", 64) in g.addresses, g.text
    assert len(g.router()) == 1 and next(iter(g.router())).startswith("fe80::"), g.routes
    assert g.nameservers() == ["2001:db8:9::53", "2001:db8:a::53"], g.resolv
    assert g.domains() == ["a.example", "b.example"], g.resolv
    assert " 0% packet loss" in g.ping, g.ping


def test_autoconfiguration(bed):
    """The kernel alone: an address of the prefix, a route, and the host is reached."""
    g = Guest(bed, "", UP.format(autoconf=1) + ROUTER + "until ip -6 addr show dev eth0 scope global | grep -q inet6; do sleep 0.02; done" + SHOW)
    (address, length), = g.addresses
    assert address.startswith("2001:db8:9:0:") and length == 64
    assert ("2001:db8:9::/64", None) in g.routes and g.router()
    assert " 0% packet loss" in g.ping, g.ping


def test_advertised_unasked(bed):
    """A guest that asks for nothing learns of its router all the same."""
    script = UP.format(autoconf=1).replace("ip link", "echo 0 > /proc/sys/net/ipv6/conf/eth0/router_solicitations; ip link") + ROUTER + SHOW
    assert Guest(bed, "", script).router()


@pytest.mark.parametrize("args, router, lease", [("--no-ra", False, True), ("--no-dhcpv6", True, False), ("--no-ndp", False, True),
                                                 ("--no-icmp", False, True)])
def test_what_is_off(bed, args, router, lease):
    """Each without the others. What is to come is waited for; what is not, for some seconds."""
    few = "i=0; until ip -6 route | grep -q '^default via fe80' || [ $i = 60 ]; do sleep 0.05; i=$((i+1)); done\n"
    give_up = "mkdir -p /etc/dhcp; echo 'timeout 4;' > /etc/dhcp/dhclient.conf\n"
    ask = DHCLIENT if lease else f"{give_up} timeout 6 {DHCLIENT} || true"
    script = UP.format(autoconf=0) + (ROUTER if router else few) + ask + SHOW.replace(f"ping -6 -c1 -W5 {PEER[6]}", "true")
    g = Guest(bed, args, script)
    assert bool(g.router()) == router, g.routes
    assert ("2001:db8:9::2" in {a for a, _ in g.addresses}) == lease, g.text
