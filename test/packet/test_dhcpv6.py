# SPDX-License-Identifier: BSD-3-Clause
"""DHCPv6 by the real program: whole exchanges of RFC 8415."""
import pytest
from scapy.layers.dhcp6 import (DHCP6_Advertise, DHCP6_Confirm, DHCP6_Decline, DHCP6_InfoRequest, DHCP6_Rebind, DHCP6_Release, DHCP6_Renew,
                                DHCP6_Reply, DHCP6_Request, DHCP6_Solicit, DHCP6OptClientId, DHCP6OptDNSDomains,
                                DHCP6OptDNSServers, DHCP6OptElapsedTime, DHCP6OptIA_NA, DHCP6OptIAAddress, DHCP6OptOptReq,
                                DHCP6OptRapidCommit, DHCP6OptServerId, DHCP6OptStatusCode, DUID_LL)
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6

from packetbed import GUEST, MAC

LL = "fe80::5054:ff:fe12:3456"
XID = 0x123456
FOREVER = 0xffffffff
SERVERS = "-D 2001:db8:9::53 -S 'one.example two.example'"


def is_reply(f):
    return UDP in f and f[UDP].sport == 547


def ia(address=None):
    options = [DHCP6OptIAAddress(addr=address)] if address else []
    return DHCP6OptIA_NA(iaid=77, T1=0, T2=0, ianaopts=options)


class Client:
    def __init__(self, vm):
        self.vm, self.duid, self.server = vm, DUID_LL(lladdr=MAC), None

    def message(self, kind, *options, server=False, dst="ff02::1:2", client=True):
        p = IPv6(src=LL, dst=dst) / UDP(sport=546, dport=547) / kind(trid=XID)
        if client:
            p /= DHCP6OptClientId(duid=self.duid)
        if server:
            p /= DHCP6OptServerId(duid=self.server)
        for o in (*options, DHCP6OptElapsedTime()):
            p /= o
        return p

    def ask(self, kind, *options, **how):
        """The answer: from our link-local address to the client, same transaction, both identifiers (RFC 8415 18.3.10)."""
        f = self.vm.guest.ask(self.message(kind, *options, **how), is_reply)
        assert f[IPv6].src.startswith("fe80::") and f[IPv6].dst == LL and f[UDP].dport == 546
        m = f[UDP].payload
        assert m.trid == XID
        if how.get("client", True):
            assert bytes(f[DHCP6OptClientId].duid) == bytes(self.duid)
        if self.server is not None:
            assert bytes(f[DHCP6OptServerId].duid) == bytes(self.server)
        self.server = f[DHCP6OptServerId].duid
        return f

    def lease(self, f):
        assert f[DHCP6OptIA_NA].iaid == 77
        a = f[DHCP6OptIAAddress]
        assert (a.addr, a.preflft, a.validlft) == (GUEST[6], FOREVER, FOREVER)


@pytest.fixture
def client(start):
    return Client(start(SERVERS))


def test_solicit_to_reply(client):
    f = client.ask(DHCP6_Solicit, ia(), DHCP6OptOptReq(reqopts=[23, 24]))
    assert DHCP6_Advertise in f
    client.lease(f)
    f = client.ask(DHCP6_Request, ia(GUEST[6]), DHCP6OptOptReq(reqopts=[23, 24]), server=True)
    assert DHCP6_Reply in f
    client.lease(f)
    assert f[DHCP6OptDNSServers].dnsservers == ["2001:db8:9::53"]
    assert f[DHCP6OptDNSDomains].dnsdomains == ["one.example.", "two.example."]


def test_rapid_commit(client):
    """RFC 8415 18.3.1: a Reply at once, with the option."""
    f = client.ask(DHCP6_Solicit, ia(), DHCP6OptRapidCommit())
    assert DHCP6_Reply in f and DHCP6OptRapidCommit in f
    client.lease(f)


def test_renew_and_rebind(client):
    """RFC 8415 18.3.4 and 18.3.5: the second without the server's identifier."""
    client.ask(DHCP6_Solicit, ia())
    client.lease(client.ask(DHCP6_Renew, ia(GUEST[6]), server=True))
    client.lease(client.ask(DHCP6_Rebind, ia(GUEST[6])))


@pytest.mark.parametrize("address,status", [(GUEST[6], 0), ("2001:db8:ffff::1", 4)])
def test_confirm(client, address, status):
    """RFC 8415 18.3.3: Success, or NotOnLink."""
    f = client.ask(DHCP6_Confirm, ia(address))
    assert DHCP6_Reply in f and f[DHCP6OptStatusCode].statuscode == status


def test_information_request(client):
    """RFC 8415 18.3.6: configuration, and no address."""
    f = client.ask(DHCP6_InfoRequest, DHCP6OptOptReq(reqopts=[23, 24]))
    assert DHCP6_Reply in f and DHCP6OptIA_NA not in f and f[DHCP6OptDNSServers].dnsservers == ["2001:db8:9::53"]


@pytest.mark.parametrize("kind", [DHCP6_Release, DHCP6_Decline])
def test_release_and_decline(client, kind):
    """RFC 8415 18.3.7 and 18.3.8: a Reply that says Success; the address stays the guest's alone."""
    client.ask(DHCP6_Solicit, ia())
    f = client.ask(kind, ia(GUEST[6]), server=True)
    assert DHCP6_Reply in f and f[DHCP6OptStatusCode].statuscode == 0
    client.lease(client.ask(DHCP6_Solicit, ia()))


def test_request_of_a_foreign_address(client):
    """RFC 8415 18.3.2: NotOnLink in the IA, or the right address."""
    client.ask(DHCP6_Solicit, ia())
    f = client.ask(DHCP6_Request, ia("2001:db8:ffff::1"), server=True)
    assert DHCP6OptIAAddress not in f or f[DHCP6OptIAAddress].addr == GUEST[6]


def test_no_answer(client):
    """RFC 8415 16: messages that must be discarded."""
    client.ask(DHCP6_Solicit, ia())
    right, other = client.server, DUID_LL(lladdr="02:00:00:00:00:01")
    wrong = [client.message(DHCP6_Solicit, ia(), server=True), client.message(DHCP6_Request, ia(GUEST[6])),
             client.message(DHCP6_Renew, ia(GUEST[6])), client.message(DHCP6_Rebind, ia(GUEST[6]), server=True),
             client.message(DHCP6_Solicit, ia(), client=False), client.message(DHCP6_Confirm, ia(GUEST[6]), server=True),
             client.message(DHCP6_Advertise, ia(), server=True), client.message(DHCP6_Reply, ia(), server=True)]
    client.server = other
    wrong += [client.message(k, ia(GUEST[6]), server=True) for k in (DHCP6_Request, DHCP6_Renew, DHCP6_Release)]
    client.server = right
    for p in wrong:
        client.vm.guest.forget()
        client.vm.guest.send(p)
        client.vm.guest.quiet(is_reply)


@pytest.mark.parametrize("args", ["--no-dhcpv6", "-4"])
def test_turned_off(start, args):
    c = Client(start(args))
    c.vm.guest.send(c.message(DHCP6_Solicit, ia()))
    c.vm.guest.quiet(is_reply)
