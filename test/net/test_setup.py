# SPDX-License-Identifier: BSD-3-Clause
"""What the guest gets of the host's network: addresses, routes and interface of one compared with those of the other."""
import ctypes
import os
import socket
import threading

import pytest
from pyroute2 import IPRoute

from netbed import libc, wait_until

CLONE_NEWNET = 0x40000000
MAIN, UNICAST = 254, 1
LINK = 253
NODAD, DADFAILED, TENTATIVE, PERMANENT, NOPREFIXROUTE = 0x02, 0x08, 0x40, 0x80, 0x200
ONLINK = 4


# ---- netlink --------------------------------------------------------------------------------------------------------

class Network:
    """Links, addresses and routes of the network namespace of a process."""

    def __init__(self, pid):
        # A socket stays in the namespace it was made in; only the thread that makes it enters.
        thread = threading.Thread(target=self._look, args=(pid,))
        thread.start()
        thread.join()

    def _look(self, pid):
        fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        if libc.setns(fd, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        os.close(fd)
        with IPRoute() as ipr:
            self.links = {link.get_attr("IFLA_IFNAME"): link for link in ipr.get_links()}
            self.addrs = list(ipr.get_addr())
            self.all_routes = [*ipr.get_routes(family=socket.AF_INET), *ipr.get_routes(family=socket.AF_INET6)]

    def index(self, dev):
        return self.links[dev]["index"]

    def addresses(self, dev, link=False):
        """Each address as a tuple; IPv6's link-local ones only with link, and then only these."""
        for a in self.addrs:
            if a["index"] != self.index(dev) or (a["scope"] == LINK and a["family"] == socket.AF_INET6) != link:
                continue
            attrs = dict(a["attrs"])
            flags = attrs.get("IFA_FLAGS", a["flags"])
            local = attrs.get("IFA_LOCAL", attrs["IFA_ADDRESS"])
            yield (local, attrs["IFA_ADDRESS"], a["prefixlen"], a["scope"], attrs.get("IFA_BROADCAST"), flags)

    def routes(self, dev):
        """Unicast routes of the main table that go by dev, in the kernel's order, without what names objects of one namespace."""
        for r in self.all_routes:
            attrs = dict(r["attrs"])
            if r["type"] != UNICAST or attrs.get("RTA_TABLE", r["table"]) != MAIN:
                continue
            hops = attrs.pop("RTA_MULTIPATH", None)
            if self.index(dev) not in ([h["oif"] for h in hops] if hops else [attrs.get("RTA_OIF")]):
                continue
            for name in ("RTA_OIF", "RTA_TABLE", "RTA_CACHEINFO", "UNKNOWN"):  # unknown to pyroute2: RTA_NH_ID
                attrs.pop(name, None)
            yield (r["family"], r["dst_len"], r["tos"], r["proto"], r["scope"], r["flags"] & ONLINK, plain(attrs),
                   [(h["oif"] == self.index(dev), h["hops"], h["flags"] & ONLINK, plain(dict(h["attrs"]))) for h in hops or []])


def plain(attrs):
    """Attributes as text, those in attributes too: pyroute2's objects compare by more than their content."""
    return {k: sorted(map(str, v["attrs"])) if isinstance(v, dict) and "attrs" in v else str(v) for k, v in attrs.items()}


# ---- one host a line ------------------------------------------------------------------------------------------------

V4 = "addr add 192.0.2.2/24 broadcast 192.0.2.255 dev eth0"
V6 = "addr add 2001:db8:9::2/64 dev eth0"
DUAL = [V4, V6]

ONLY = {4: [V4, "route add default via 192.0.2.1"], 6: [V6, "-6 route add default via 2001:db8:9::1"]}

# Name: ip commands on a host with eth0 up.
HOSTS = {
    "dual_stack": [*DUAL, "route add default via 192.0.2.1", "-6 route add default via 2001:db8:9::1"],
    "dhcp_and_ra": [*DUAL, "route add default via 192.0.2.1 proto dhcp src 192.0.2.2 metric 100",
                    "-6 route add default via fe80::1 dev eth0 proto ra metric 1024 pref high expires 1000"],
    "multipath": [*DUAL, "route add default nexthop via 192.0.2.3 weight 2 nexthop via 192.0.2.4 weight 5",
                  "-6 route add default nexthop via 2001:db8:9::3 weight 4 nexthop via 2001:db8:9::4"],
    "nexthop_objects": [*DUAL, "nexthop add id 1 via 192.0.2.1 dev eth0", "nexthop add id 2 via 192.0.2.3 dev eth0",
                        "nexthop add id 3 group 1/2", "nexthop add id 6 via fe80::1 dev eth0", "route add default nhid 3",
                        "route add 10.0.0.0/8 nhid 1", "-6 route add default nhid 6"],
    "onlink": [*DUAL, "route add default via 172.16.0.1 dev eth0 onlink",
               "-6 route add default via 2001:db8:77::1 dev eth0 onlink"],
    "host_prefix": ["addr add 192.0.2.2/32 dev eth0", "addr add 2001:db8:9::2/128 dev eth0",
                    "route add 172.16.0.1 dev eth0 scope link", "route add default via 172.16.0.1 src 192.0.2.2",
                    "-6 route add 2001:db8:77::1 dev eth0", "-6 route add default via 2001:db8:77::1"],
    "gateway_of_other_family": ["addr add 192.0.2.2/32 dev eth0", V6, "-4 route add default via inet6 fe80::1 dev eth0",
                                "-6 route add default via fe80::1 dev eth0"],
    "peer_address": ["addr add 192.0.2.2 peer 192.0.2.1 dev eth0", "addr add 2001:db8:9::2 peer 2001:db8:9::1 dev eth0",
                     "route add default via 192.0.2.1", "-6 route add default via 2001:db8:9::1"],
    "several_addresses": [*DUAL, "addr add 192.0.2.3/24 dev eth0", "addr add 10.0.0.2/8 dev eth0",
                          "addr add 2001:db8:9::3/64 dev eth0", "addr add 2001:db8:8::3/64 dev eth0 nodad",
                          "route add default via 192.0.2.1 src 192.0.2.3"],
    "no_connected_routes": ["addr add 192.0.2.2/24 dev eth0 noprefixroute", "addr add 2001:db8:9::2/64 dev eth0 noprefixroute",
                            "route add 192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2 metric 100",
                            "-6 route add 2001:db8:9::/64 dev eth0 proto ra metric 100",
                            "route add default via 192.0.2.1 metric 100", "-6 route add default via 2001:db8:9::1 metric 100"],
    "several_metrics": [*DUAL, "route add default via 192.0.2.1 metric 20", "route add default via 192.0.2.3 metric 10",
                        "route append default via 192.0.2.4 metric 20", "-6 route add default via 2001:db8:9::1 metric 20",
                        "-6 route add default via 2001:db8:9::3 metric 10"],
    "attributes": [*DUAL, "route add default via 192.0.2.1 mtu 1400 advmss 1300 window 60000 proto static",
                   "route add 10.0.0.0/8 tos 0x10 via 192.0.2.1",
                   "-6 route add default via 2001:db8:9::1 mtu lock 1400 hoplimit 70"],
    "no_default_route": [*DUAL, "route add 10.0.0.0/8 via 192.0.2.1", "-6 route add 2001:db8:5::/48 via 2001:db8:9::1"],
    "many_routes": [*DUAL, "route add default via 192.0.2.1", "-6 route add default via 2001:db8:9::1",
                    *(f"route add 10.0.{i}.0/24 via 192.0.2.{i % 250 + 3}" for i in range(256)),
                    *(f"-6 route add 2001:db8:1:{i:x}::/64 via 2001:db8:9::1" for i in range(300))],
}


def ip(bed, commands):
    bed.host("set -e\n" + "\n".join(f"ip {c}" for c in commands))


def connected(bare_bed, commands):
    bare_bed.link()
    bare_bed.host("ip -6 addr add fe80::2/64 dev eth0")
    ip(bare_bed, commands)
    return bare_bed


def both(bed, args="--config-net", **kwargs):
    """The host's network and that of the guest of a pasta started now."""
    p = bed.pasta_bg(args, **kwargs)
    return Network(bed.host_ns.pid), Network(p.guest_pid), p


def without_flags(addresses):
    """What a copy may not keep: flags about checking, age and origin, and NOPREFIXROUTE, which stands for a missing route."""
    return [(*a[:5], a[5] & ~(NODAD | PERMANENT | NOPREFIXROUTE)) for a in addresses]


@pytest.mark.parametrize("name", HOSTS)
def test_same_as_host(bare_bed, name):
    host, guest, _ = both(connected(bare_bed, HOSTS[name]))
    assert list(guest.routes("eth0")) == list(host.routes("eth0"))
    assert without_flags(guest.addresses("eth0")) == without_flags(host.addresses("eth0"))
    assert list(guest.routes("eth0")), "nothing was compared"
    assert not [a for a in [*guest.addresses("eth0"), *guest.addresses("eth0", link=True)] if a[5] & (TENTATIVE | DADFAILED)]


def test_interface(bare_bed):
    _, guest, p = both(connected(bare_bed, HOSTS["dual_stack"]))
    assert set(guest.links) == {"lo", "eth0"}
    lo, eth0 = guest.links["lo"], guest.links["eth0"]
    assert lo["flags"] & 1 and eth0["flags"] & 1
    assert eth0.get_attr("IFLA_MTU") == 65520
    mac = [int(b, 16) for b in eth0.get_attr("IFLA_ADDRESS").split(":")]
    eui64 = bytes([0xfe, 0x80, *[0] * 6, mac[0] ^ 2, *mac[1:3], 0xff, 0xfe, *mac[3:]])
    assert [a[0] for a in guest.addresses("eth0", link=True)] == [socket.inet_ntop(socket.AF_INET6, eui64)]
    assert not p.err.strip(), p.err


def test_usable_at_once(bare_bed):
    """The command's first act: bind, and send to itself and out."""
    connected(bare_bed, HOSTS["dual_stack"])
    code = """
import socket, subprocess
for f, own, far in ((socket.AF_INET, '192.0.2.2', '198.51.100.9'), (socket.AF_INET6, '2001:db8:9::2', '2001:db8:a::9')):
    s = socket.socket(f, socket.SOCK_DGRAM)
    s.bind((own, 7777))
    s.sendto(b'x', (own, 7777))
    assert s.recv(9, socket.MSG_DONTWAIT) == b'x'
    s.connect((far, 9))
    assert s.getsockname()[0] == own
assert not subprocess.check_output(['ip', 'addr', 'show', 'tentative'])
"""
    for _ in range(3):
        r = bare_bed.pasta("--config-net", ["/usr/bin/python3", "-c", code])
        assert r.rc == 0, repr(r)


# ---- devices of other kinds -----------------------------------------------------------------------------------------

@pytest.fixture
def tun_bed(bare_bed):
    """A host with a device without MAC and without address resolution; nobody reads it."""
    bare_bed.host("ip tuntap add tun0 mode tun && ip link set tun0 up")
    yield bare_bed
    bare_bed.host("ip tuntap del tun0 mode tun")


def test_device_without_mac(tun_bed):
    ip(tun_bed, ["addr add 10.1.0.2 peer 10.1.0.1 dev tun0", "route add default dev tun0 scope link",
                 "route add 10.9.0.0/16 via 10.1.0.1", "-6 addr add 2001:db8:9::2/64 dev tun0",
                 "-6 route add default dev tun0"])
    host, guest, _ = both(tun_bed)
    # Nobody reads it, so it has no carrier and no link-local address; the guest's device has both.
    own = [r for r in guest.routes("tun0") if r[6].get("RTA_DST") == "fe80::"]
    assert len(own) == 1
    assert [r for r in guest.routes("tun0") if r not in own] == list(host.routes("tun0"))
    assert without_flags(guest.addresses("tun0")) == without_flags(host.addresses("tun0"))
    assert len(list(host.routes("tun0"))) == 5


def test_routes_elsewhere_stay(bare_bed):
    connected(bare_bed, HOSTS["dual_stack"])
    bare_bed.link("eth1")
    ip(bare_bed, ["addr add 198.51.100.2/24 dev eth1", "route add 10.5.0.0/16 via 198.51.100.1",
                  "route add 10.6.0.0/16 nexthop via 192.0.2.5 nexthop via 198.51.100.1",
                  "route add 10.7.0.0/16 via 192.0.2.1 table 77", "route add unreachable 10.8.0.0/16"])
    _, guest, p = both(bare_bed)
    text = p.guest("ip -4 route show table all type unicast").out
    for absent in ("198.51.100.", "10.5.", "10.7.", "10.8."):
        assert absent not in text
    assert "10.6.0.0/16 via 192.0.2.5 dev eth0" in text
    assert "1 next hop" in p.err


def test_template_interface(bare_bed):
    connected(bare_bed, [V4, "route add default via 192.0.2.1 metric 100"])
    bare_bed.link("eth1")
    ip(bare_bed, ["addr add 198.51.100.2/24 dev eth1", "route add default via 198.51.100.1 metric 200"])
    for args, dev, address in (("", "eth0", "192.0.2.2"), ("-i eth1", "eth1", "198.51.100.2"),
                               ("--outbound-if4 eth1", "eth1", "198.51.100.2")):
        _, guest, p = both(bare_bed, f"--config-net {args}")
        assert [a[0] for a in guest.addresses(dev) if "." in a[0]] == [address]
        p.stop()


@pytest.mark.parametrize("option", ["-i", "--outbound-if4", "--outbound-if6"])
def test_no_such_interface(bare_bed, option):
    r = bare_bed.pasta(f"--config-net {option} none0", "true")
    assert r.rc == 1
    assert "none0" in r.err and len(r.err.strip().splitlines()) == 1, repr(r)


# ---- little or nothing on the host ----------------------------------------------------------------------------------

LOCAL4 = ("169.254.2.1", 16)


def expect_local(guest, dev, family):
    default = [r for r in guest.routes(dev) if r[0] == family and not r[1]]
    assert [r[6]["RTA_GATEWAY"] for r in default] == ["169.254.2.2" if family == socket.AF_INET else "fe80::1"]
    addresses = [(a[0], a[2]) for a in guest.addresses(dev) if (":" in a[0]) == (family == socket.AF_INET6)]
    assert addresses == ([LOCAL4] if family == socket.AF_INET else [])
    assert len(list(guest.addresses(dev, link=True))) == 1


def test_only_lo(bare_bed):
    _, guest, p = both(bare_bed)
    expect_local(guest, "tap0", socket.AF_INET)
    expect_local(guest, "tap0", socket.AF_INET6)
    assert p.running()


def test_lo_down(bare_bed):
    bare_bed.host("ip link set lo down")
    _, guest, _ = both(bare_bed)
    expect_local(guest, "tap0", socket.AF_INET)


def test_no_address(bare_bed):
    connected(bare_bed, ["route add default dev eth0"])
    _, guest, _ = both(bare_bed)
    expect_local(guest, "tap0", socket.AF_INET)
    expect_local(guest, "tap0", socket.AF_INET6)


def of_family(routes, family):
    return [r for r in routes if r[0] == (socket.AF_INET if family == 4 else socket.AF_INET6)]


def test_one_family_missing(bare_bed, family):
    host, guest, _ = both(connected(bare_bed, ONLY[family]))
    expect_local(guest, "eth0", socket.AF_INET6 if family == 4 else socket.AF_INET)
    assert of_family(guest.routes("eth0"), family) == of_family(host.routes("eth0"), family)
    assert len(of_family(host.routes("eth0"), family)) >= 2


def test_host_without_ipv6(bare_bed):
    bare_bed.host("for c in all default; do echo 1 > /proc/sys/net/ipv6/conf/$c/disable_ipv6; done")
    bare_bed.link()
    ip(bare_bed, ONLY[4])
    host, guest, _ = both(bare_bed)
    assert len(of_family(host.routes("eth0"), 4)) == 2
    assert of_family(guest.routes("eth0"), 4) == of_family(host.routes("eth0"), 4)


def test_guest_without_ipv6(bed):
    holder = bed.netns_of_user()
    bed.user(["nsenter", "-t", str(holder.pid), "-U", "--preserve-credentials", "-n", "sh", "-c",
              "for c in all default; do echo 1 > /proc/sys/net/ipv6/conf/$c/disable_ipv6; done"], check=True)
    pid_file = bed.tmp / "pid"
    p = bed.user_bg([bed.pasta_path, "-f", "--config-net", "-P", str(pid_file), str(holder.pid)])
    wait_until(lambda: pid_file.exists() and pid_file.read_text(), what="PID file")
    guest = Network(holder.pid)
    assert [a[0] for a in guest.addresses("eth0")] == ["192.0.2.2"]
    assert not list(guest.addresses("eth0", link=True))
    assert "IPv6" in p.err
    assert p.running()


# ---- options --------------------------------------------------------------------------------------------------------

def setup_with(bed, args):
    _, guest, p = both(bed, f"--config-net {args}")
    return guest, p


def v4_addresses(guest, dev="eth0"):
    return [(a[0], a[2]) for a in guest.addresses(dev) if "." in a[0]]


def v6_addresses(guest, dev="eth0"):
    return [(a[0], a[2]) for a in guest.addresses(dev) if ":" in a[0]]


def gateways(guest, dev="eth0"):
    return [r[6].get("RTA_GATEWAY") for r in guest.routes(dev) if not r[1]]


@pytest.mark.parametrize("args,v4", [
    ("-a 10.0.0.5/24", ("10.0.0.5", 24)),
    ("-a 10.0.0.5", ("10.0.0.5", 8)),
    ("-a 10.0.0.5 -n 255.255.0.0", ("10.0.0.5", 16)),
    ("-a 10.0.0.5 -n 20", ("10.0.0.5", 20)),
])
def test_address_v4(bed, args, v4):
    guest, _ = setup_with(bed, args)
    assert v4_addresses(guest) == [v4]
    assert v6_addresses(guest) == [("2001:db8:9::2", 64)]
    assert gateways(guest) == ["192.0.2.1", "2001:db8:9::1"]
    # The host's routes, and nothing twice.
    prefixes = [(r[0], r[1], r[6].get("RTA_DST")) for r in guest.routes("eth0")]
    assert len(prefixes) == len(set(prefixes))


def test_address_v6(bed):
    guest, _ = setup_with(bed, "-a 2001:db8:77::5")
    assert v6_addresses(guest) == [("2001:db8:77::5", 64)]
    assert v4_addresses(guest) == [("192.0.2.2", 24)]
    assert gateways(guest) == ["192.0.2.1", "2001:db8:9::1"]


def test_same_prefix_not_twice(bed):
    guest, _ = setup_with(bed, "-a 192.0.2.77/24")
    assert [(r[1], r[6].get("RTA_PREFSRC")) for r in guest.routes("eth0") if r[0] == socket.AF_INET] == \
        [(0, None), (24, "192.0.2.77")]


def test_gateway(bed):
    ip(bed, ["route add 10.0.0.0/8 via 192.0.2.9"])
    guest, _ = setup_with(bed, "-g 192.0.2.99 -g 2001:db8:9::99")
    assert gateways(guest) == ["192.0.2.99", "2001:db8:9::99"]
    assert len([r for r in guest.routes("eth0") if r[0] == socket.AF_INET]) == 2
    assert v4_addresses(guest) == [("192.0.2.2", 24)]


def test_gateway_off_link(bed):
    guest, p = setup_with(bed, "-a 10.0.0.5/24 -g 172.16.0.1 -a 2001:db8:77::5 -g 2001:db8:78::1")
    assert gateways(guest) == ["172.16.0.1", "2001:db8:78::1"]
    assert "Can't" not in p.err


def test_given_in_local_mode(bare_bed):
    guest, _ = setup_with(bare_bed, "-a 10.0.0.5/24 -g 10.0.0.1")
    assert v4_addresses(guest, "tap0") == [("10.0.0.5", 24)]
    assert gateways(guest, "tap0") == ["10.0.0.1", "fe80::1"]


@pytest.mark.parametrize("mtu", [1280, 9000, 65520])
def test_mtu(bed, mtu):
    guest, _ = setup_with(bed, f"-m {mtu}")
    assert guest.links["eth0"].get_attr("IFLA_MTU") == mtu
    assert v6_addresses(guest)


def test_mtu_too_small_for_ipv6(bed):
    guest, p = setup_with(bed, "-m 1000")
    assert guest.links["eth0"].get_attr("IFLA_MTU") == 1000
    assert v4_addresses(guest) and not v6_addresses(guest)
    assert p.running()


def test_mtu_left_alone(bed):
    guest, _ = setup_with(bed, "-m 0")
    assert guest.links["eth0"].get_attr("IFLA_MTU") == 1500


def test_names(bed):
    guest, _ = setup_with(bed, "-I guest0 --ns-mac-addr 02:01:02:03:04:05")
    assert set(guest.links) == {"lo", "guest0"}
    assert guest.links["guest0"].get_attr("IFLA_ADDRESS") == "02:01:02:03:04:05"
    assert [a[0] for a in guest.addresses("guest0", link=True)] == ["fe80::1:2ff:fe03:405"]
    assert v4_addresses(guest, "guest0") == [("192.0.2.2", 24)]


def test_our_mac(bed):
    _, _, p = both(bed, "--config-net -M 02:aa:bb:cc:dd:ee")
    for family, gateway in ((4, "192.0.2.1"), (6, "2001:db8:9::1")):
        p.guest(f"ping -{family} -c1 -W2 {gateway}", check=False)
        assert "02:aa:bb:cc:dd:ee" in p.guest(f"ip neigh show {gateway}").out


def test_one_family(bed):
    guest, _ = setup_with(bed, "-4")
    assert v4_addresses(guest) and not v6_addresses(guest) and gateways(guest) == ["192.0.2.1"]
    guest, _ = setup_with(bed, "-6")
    assert not v4_addresses(guest) and v6_addresses(guest) and gateways(guest) == ["2001:db8:9::1"]


def test_without_config_net(bed):
    _, guest, _ = both(bed, "")
    assert guest.links["lo"]["flags"] & 1
    assert not guest.links["eth0"]["flags"] & 1
    assert not list(guest.addresses("eth0")) and not list(guest.routes("eth0"))
