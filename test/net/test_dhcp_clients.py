# SPDX-License-Identifier: BSD-3-Clause
"""DHCP clients that others wrote, in a namespace behind pasta without --config-net: address, prefix, routes, MTU and
resolver as they are told, and traffic that flows. Each runs as root of the namespace, with /etc, /run and /var/lib of
its own."""
import json
import re

import pytest
from netbed import PEER, run

NAMES = "--dhcp-dns --dhcp-search -D 192.0.2.53 -D 198.51.100.53 -S 'a.example b.example'"

# $1: a folder, $2: the client's script. /etc has what the clients need, and a resolv.conf that nobody else has. The one
# user that the namespace has is whoever a client wants to become.
PRIVATE = r"""
set -e
mkdir -p $1/etc/systemd/network $1/run $1/lib
for f in dhcp udhcpc dhcpcd.conf ld.so.cache alternatives iproute2; do [ -e $1/etc/$f ] || [ ! -e /etc/$f ] || cp -rL /etc/$f $1/etc/$f; done
printf '%s:x:0:0::/:/bin/sh\n' root systemd-network > $1/etc/passwd
echo 'root:x:0:' > $1/etc/group
echo 'passwd: files' > $1/etc/nsswitch.conf
echo 0123456789abcdef0123456789abcdef > $1/etc/machine-id
: > $1/etc/resolv.conf; : > $1/etc/fstab
mount --bind $1/etc /etc; mount --bind $1/run /run; mount --bind $1/lib /var/lib
mkdir -p /var/lib/dhcp /var/lib/dhcpcd
eval "$2"
"""
SHOW = f"""
echo; echo ==addresses; ip -j -4 addr show dev eth0; echo ==routes; ip -j -4 route; echo ==resolv; cat /etc/resolv.conf
echo; echo ==ping; ping -c1 -W5 {PEER[4]}
"""

# It waits for no udev where /sys can't be written to. Without systemd-resolved it only notes the resolver.
NETWORKD = r"""
cat > /etc/systemd/network/10-test.network <<END
[Match]
Name=eth0
[Network]
DHCP=ipv4
LinkLocalAddressing=no
IPv6AcceptRA=no
[DHCPv4]
UseMTU=yes
UseDomains=yes
RapidCommit=yes
END
mount --rbind /sys /sys; mount -o remount,bind,ro /sys
mkdir -p /run/systemd/netif
SYSTEMD_LOG_TARGET=console /lib/systemd/systemd-networkd 2>&1 & daemon=$!
/lib/systemd/systemd-networkd-wait-online -4 -i eth0 --timeout 30
sed -n 's/^DNS=//p' /run/systemd/netif/leases/* | tr ' ' '\n' | sed 's/^/nameserver /' > /etc/resolv.conf
sed -n 's/^DOMAIN_SEARCH_LIST=/search /p' /run/systemd/netif/leases/* >> /etc/resolv.conf
"""
DHCLIENT = "dhclient -4 -v -pf /run/pid -lf /var/lib/dhcp/leases"
ONCE = f"ip link set eth0 up; {DHCLIENT} -1 eth0 2>&1; {SHOW}"
CLIENTS = {
    "dhclient": f"{ONCE} {DHCLIENT} -x eth0",
    "dhcpcd": "dhcpcd -4 -1 -w -t 20 eth0 2>&1;" + SHOW,
    "networkd": NETWORKD + SHOW + "kill $daemon; wait $daemon",
    "udhcpc": "ip link set eth0 up; udhcpc -f -q -n -t 5 -O search -O mtu -i eth0 2>&1;" + SHOW,
}


class Guest:
    """A pasta whose guest has the clients' folders; text: what a client said; and what it made of the network."""

    def __init__(self, bed, args):
        self.bed, self.pasta = bed, bed.pasta_bg(args)

    def run(self, script, timeout=60):
        r = self.pasta.guest(["unshare", "-m", "--propagation", "private", "sh", "-c", PRIVATE, "sh", self.bed.tmp, script],
                             timeout)
        self.text, *parts = r.out.split("\n==")
        parts = dict(p.split("\n", 1) for p in parts)
        link, = json.loads(parts["addresses"])
        routes = json.loads(parts["routes"])
        # dhcpcd leaves the interface alone and gives its routes the MTU.
        self.mtu = {m["mtu"] for r in routes for m in r.get("metrics", []) if "mtu" in m} or {link["mtu"]}
        self.addresses = [(a["local"], a["prefixlen"]) for a in link["addr_info"]]
        self.routes = {(r["dst"], r.get("gateway")) for r in routes}
        self.resolv = [line.split() for line in parts["resolv"].splitlines() if line.strip() and line[0] != "#"]
        self.ping = parts["ping"]
        return self

    def nameservers(self):
        return [words[1] for words in self.resolv if words[0] == "nameserver"]

    def domains(self):
        return [w.rstrip(".") for words in self.resolv if words[0] == "search" for w in words[1:]]


@pytest.mark.parametrize("client", CLIENTS)
def test_as_the_host(bed, client):
    g = Guest(bed, f"-m 9000 -H guest {NAMES}").run(CLIENTS[client])
    assert g.addresses == [("192.0.2.2", 24)], g.text
    assert g.routes >= {("default", "192.0.2.1"), ("192.0.2.0/24", None)}
    assert g.mtu == {9000}
    assert g.nameservers() == ["192.0.2.53", "198.51.100.53"]
    if client == "udhcpc":  # its script knows no list
        assert ["domain", "a.example"] in g.resolv
    else:
        assert g.domains() == ["a.example", "b.example"], g.resolv
    assert " 0% packet loss" in g.ping


@pytest.mark.parametrize("client", CLIENTS)
def test_gateway_outside_the_subnet(bed, client):
    g = Guest(bed, "-a 192.0.2.2/32 -g 203.0.113.1").run(CLIENTS[client])
    assert g.addresses == [("192.0.2.2", 32)], g.text
    assert ("default", "203.0.113.1") in g.routes, g.routes
    assert g.mtu == {65520}
    assert g.resolv == []
    assert " 0% packet loss" in g.ping


def test_lease_of_another_network(bed):
    """A client that comes back has its lease confirmed; one that comes from elsewhere is told so (RFC 2131 4.3.2)."""
    log = bed.tmp / "log"
    for told in ("DHCPDISCOVER", "DHCPACK of 192.0.2.2"):
        g = Guest(bed, "").run(CLIENTS["dhclient"])
        assert g.addresses == [("192.0.2.2", 24)] and told in g.text, g.text
        g.pasta.stop()
    assert "DHCPDISCOVER" not in g.text
    g = Guest(bed, ["-a", "192.0.2.9/24", "--log-file", log])
    g.run(f"{ONCE} {DHCLIENT} -r eth0 2>&1; {DHCLIENT} -1 eth0 2>&1; {DHCLIENT} -x eth0")
    assert "DHCPNAK" in g.text and g.addresses == [("192.0.2.9", 24)], g.text
    assert "DHCPRELEASE" in g.ping and "DHCPACK of 192.0.2.9" in g.ping.split("DHCPRELEASE")[1], g.ping
    for answer in ("NAK", "OFFER", "ACK"):
        assert f"DHCP: {answer} to " in log.read_text()


def test_renewal(bed):
    """Renewal goes to the server's address, by way of the guest's own IP stack; so does release."""
    script = """
ip link set eth0 up
udhcpc -f -n -R -i eth0 > /run/log 2>&1 & client=$!
wait_for() { until [ "$(grep -c "$1" /run/log)" = $2 ]; do sleep 0.02; kill -0 $client || break; done; }
wait_for 'lease of .* obtained' 1
kill -USR1 $client
wait_for 'lease of .* obtained' 2
""" + SHOW + "kill $client; wait $client; cat /run/log"
    pcap = bed.tmp / "pcap"
    g = Guest(bed, f"--pcap {pcap}").run(script)
    assert g.ping.count("lease of 192.0.2.2 obtained from 192.0.2.1, lease time 4294967295") == 2, g.ping
    assert "unicasting a release of 192.0.2.2 to 192.0.2.1" in g.ping, g.ping
    g.pasta.stop()
    # This client can miss the answer, which may be there before it has closed the socket that it asked by, and then
    # tries again by broadcast.
    packets = re.findall(r"IP (192[0-9.]+) > ([0-9.]+): BOOTP", run(["tcpdump", "-nr", str(pcap), "udp"]).out)
    at = packets.index(("192.0.2.2.68", "192.0.2.1.67"))
    assert packets[at + 1] == ("192.0.2.1.67", "192.0.2.2.68")
    assert packets[-1] == ("192.0.2.2.68", "192.0.2.1.67")  # nobody answers a release


def test_inform(bed):
    """A client that has its address asks for the rest (RFC 2131 3.4)."""
    g = Guest(bed, NAMES).run("dhcpcd -4 -1 -w -t 20 --inform=192.0.2.2/24 eth0 2>&1;" + SHOW)
    assert "received approval for 192.0.2.2" in g.text, g.text
    assert g.addresses == [("192.0.2.2", 24)]
    assert g.nameservers() == ["192.0.2.53", "198.51.100.53"]


@pytest.mark.parametrize("args, served", [("--no-dhcp", False), ("-6", False), ("--no-udp", True), ("--config-net", True)])
def test_when_served(bed, args, served):
    p = bed.pasta_bg(args)
    r = p.guest("ip link set eth0 up; udhcpc -f -q -n -t 2 -T 1 -s /bin/true -i eth0", check=False)
    assert (r.rc, "lease of 192.0.2.2" in r.err, "no lease, failing" in r.err) == (0 if served else 1, served, not served), r
