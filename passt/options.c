/* SPDX-License-Identifier: BSD-3-Clause */
/* One row an option: what getopt is told, what --help says and what is done all come from here. The
 * manual (doc/passt.1) is compared with it by a test. */
#include "passt/options.h"

#include <limits.h>
#include <stddef.h>

#define CFG(member)    offsetof(struct config, member)
#define FAMILY(member) offsetof(struct config_family, member)

/* clang-format off */
const struct option_row option_rows[] = {
	/* Messages and process. */
	{'h', "help", NULL, WHERE_BOTH, option_action, "Show this text and exit", 0, ACTION_HELP},
	{0, "version", NULL, WHERE_BOTH, option_action, "Show version and licence and exit", 0, ACTION_VERSION},
	{'d', "debug", NULL, WHERE_BOTH, option_level,
	 "Be verbose, with time stamps, on the standard error\ninstead of the system log; cancels --quiet", 0, LOG_LEVEL_DEBUG},
	{0, "trace", NULL, WHERE_BOTH, option_level, "As --debug, and a line for each packet or event", 0, LOG_LEVEL_TRACE},
	{'q', "quiet", NULL, WHERE_BOTH, option_level, "Warnings and errors only; cancels --debug and --trace", 0, LOG_LEVEL_WARN},
	{0, "stats", "SECONDS", WHERE_BOTH, option_stats,
	 "Print a table of what goes through to the standard error,\na row each so many seconds; in the foreground only", 0, 0},
	{'f', "foreground", NULL, WHERE_BOTH, option_flag, "Don't go to the background", CFG(foreground), true},
	{'e', "stderr", NULL, WHERE_BOTH, option_deprecated, "No effect, accepted for old callers", 0, 0},
	{'l', "log-file", "PATH", WHERE_BOTH, option_path, "Log to a file instead of the system log", CFG(log_file), PATH_MAX - 1},
	{0, "log-size", "BYTES", WHERE_BOTH, option_log_size, "Size that the log file is kept within\ndefault: 1048576 (1 MiB)", 0, 0},
	{0, "runas", "UID|UID:GID|LOGIN|LOGIN:GROUP", WHERE_BOTH, option_name,
	 "Whom to become if started as root\ndefault: nobody", CFG(runas), 255},
	{'p', "pcap", "FILE", WHERE_BOTH, option_path, "Capture the guest's traffic to a file", CFG(pcap), PATH_MAX - 1},
	{'c', "conf-path", "PATH", WHERE_BOTH, option_path, "No effect yet: there is no control socket", CFG(conf_path), 107},
	{0, "chroot-fallback", NULL, WHERE_BOTH, option_no_effect,
	 "No effect: without the right to an empty root the program\ngoes on without, and says so", 0, 0},
	{'P', "pid", "FILE", WHERE_BOTH, option_path, "Write own process ID to a file when ready", CFG(pid_file), PATH_MAX - 1},

	/* Addresses of the guest. */
	{'4', "ipv4-only", NULL, WHERE_BOTH, option_only_family, "IPv4 only", 0, IP_V4},
	{'6', "ipv6-only", NULL, WHERE_BOTH, option_only_family, "IPv6 only", 0, IP_V6},
	{'m', "mtu", "BYTES", WHERE_BOTH, option_mtu, "MTU of the guest's interface, 0: leave it alone\ndefault: 65520", 0, 0},
	{'a', "address", "ADDR[/PREFIX]", WHERE_BOTH, option_guest_address,
	 "Address of the guest, once for each of IPv4 and IPv6\ndefault: as the host's", 0, 0},
	{'n', "netmask", "MASK", WHERE_BOTH, option_netmask, "IPv4 mask, dotted or as number of bits\ndefault: as the host's", 0, 0},
	{'M', "mac-addr", "MAC", WHERE_BOTH, option_our_mac,
	 "MAC address that the guest sees on our side\ndefault: 9a:55:9a:55:9a:55", 0, 0},
	{'g', "gateway", "ADDR", WHERE_BOTH, option_gateway,
	 "Gateway of the guest, once for each of IPv4 and IPv6\ndefault: as the host's", 0, 0},
	{'i', "interface", "NAME", WHERE_BOTH, option_ifname,
	 "Host interface that addresses and routes are taken from\ndefault: that of the first default route", CFG(interface), 0},
	{'o', "outbound", "ADDR", WHERE_BOTH, option_address, "Source address of outbound connections", FAMILY(outbound),
	 REFUSE_UNSPECIFIED | REFUSE_LOOPBACK_V6 | REFUSE_GROUP | REFUSE_MAPPED},
	{0, "outbound-if4", "NAME", WHERE_BOTH, option_outbound_if, "Bind outbound IPv4 sockets to an interface", 0, IP_V4},
	{0, "outbound-if6", "NAME", WHERE_BOTH, option_outbound_if, "Bind outbound IPv6 sockets to an interface", 0, IP_V6},

	/* Names. */
	{'D', "dns", "ADDR|none", WHERE_BOTH, option_dns,
	 "Name server for the guest, up to three a family\ndefault: from /etc/resolv.conf", 0, 0},
	{0, "dns-forward", "ADDR", WHERE_BOTH, option_address_once,
	 "Queries that the guest sends to this address go to the\nhost's name server, once for each of IPv4 and IPv6",
	 FAMILY(dns_forward), REFUSE_UNSPECIFIED | REFUSE_LOOPBACK | REFUSE_GROUP},
	{0, "dns-host", "ADDR", WHERE_BOTH, option_address,
	 "The name server that --dns-forward goes to\ndefault: first of /etc/resolv.conf", FAMILY(dns_host),
	 REFUSE_UNSPECIFIED | REFUSE_GROUP},
	{'S', "search", "LIST|none", WHERE_BOTH, option_search,
	 "Search domains for the guest, separated by spaces, up to six\ndefault: from /etc/resolv.conf", 0, 0},
	{'H', "hostname", "NAME", WHERE_BOTH, option_name, "Host name of the guest", CFG(hostname), RESOLVER_NAME_MAX - 1},
	{0, "fqdn", "NAME", WHERE_BOTH, option_fqdn, "Fully qualified domain name of the guest", 0, 0},

	/* What is translated and answered. */
	{0, "no-tcp", NULL, WHERE_BOTH, option_flag, "No TCP from the guest", CFG(tcp_on), false},
	{0, "no-udp", NULL, WHERE_BOTH, option_flag, "No UDP from the guest", CFG(udp_on), false},
	{0, "no-icmp", NULL, WHERE_BOTH, option_flag, "No ICMP and ICMPv6 (ping), and no NDP", CFG(icmp_on), false},
	{0, "no-dhcp", NULL, WHERE_BOTH, option_flag, "No DHCP server", CFG(dhcp_on), false},
	{0, "no-dhcp-dns", NULL, WHERE_PASST, option_flag, "No name servers by DHCP, DHCPv6 and router advertisements",
	 CFG(dhcp_dns), false},
	{0, "dhcp-dns", NULL, WHERE_PASTA, option_flag, "Name servers by DHCP, DHCPv6 and router advertisements",
	 CFG(dhcp_dns), true},
	{0, "no-dhcp-search", NULL, WHERE_PASST, option_flag,
	 "No search domains by DHCP, DHCPv6 and router\nadvertisements", CFG(dhcp_search), false},
	{0, "dhcp-search", NULL, WHERE_PASTA, option_flag, "Search domains by DHCP, DHCPv6 and router advertisements",
	 CFG(dhcp_search), true},
	{0, "no-ndp", NULL, WHERE_BOTH, option_flag, "No answers to neighbour discovery", CFG(ndp_on), false},
	{0, "no-dhcpv6", NULL, WHERE_BOTH, option_flag, "No DHCPv6 server", CFG(dhcpv6_on), false},
	{0, "no-ra", NULL, WHERE_BOTH, option_flag, "No router advertisements", CFG(ra_on), false},
	{0, "map-host-loopback", "ADDR|none", WHERE_BOTH, option_map,
	 "Address by which the guest reaches the host's loopback,\nonce for each of IPv4 and IPv6\ndefault: the gateway",
	 FAMILY(map_host_loopback), 0},
	{0, "no-map-gw", NULL, WHERE_BOTH, option_flag, "The gateway is not the host's loopback", CFG(map_gw), false},
	{0, "map-guest-addr", "ADDR|none", WHERE_BOTH, option_map,
	 "Address by which the guest reaches the host, where both have\nthe same address, once for each of IPv4 and IPv6\n"
	 "default: none", FAMILY(map_guest_addr), 0},

	/* Ports. */
	{'t', "tcp-ports", "SPEC", WHERE_BOTH, option_ports,
	 "TCP ports of the host to forward to the guest, repeatable:\n"
	 "[ADDR][%NAME]/ and any of N, N-M, N:M, N-M:K-L, ~N, all,\n"
	 "auto (pasta) with commas between them; or none\ndefault: none, for pasta auto",
	 CFG(ports[FORWARD_HOST]), IPPROTO_TCP},
	{'u', "udp-ports", "SPEC", WHERE_BOTH, option_ports, "The same for UDP", CFG(ports[FORWARD_HOST]), IPPROTO_UDP},
	{'T', "tcp-ns", "SPEC", WHERE_PASTA, option_ports,
	 "TCP ports of the namespace's loopback to forward to the\nhost's, without address and name\ndefault: auto",
	 CFG(ports[FORWARD_NS]), IPPROTO_TCP},
	{'U', "udp-ns", "SPEC", WHERE_PASTA, option_ports, "The same for UDP", CFG(ports[FORWARD_NS]), IPPROTO_UDP},
	{0, "freebind", NULL, WHERE_BOTH, option_flag, "Listen also on addresses that the host doesn't have", CFG(freebind), true},
	{0, "host-lo-to-ns-lo", NULL, WHERE_PASTA, option_flag,
	 "Ports reached by the host's loopback lead to that of the\nnamespace, not to its address", CFG(host_lo_to_ns_lo), true},
	{0, "no-splice", NULL, WHERE_PASTA, option_flag, "Loopback traffic goes by the interface too", CFG(splice_on), false},
	{0, "splice-only", NULL, WHERE_PASTA, option_flag,
	 "No interface, only forwarded ports between the loopbacks", CFG(splice_only), true},

	/* The virtual machine. */
	{'s', "socket", "PATH", WHERE_PASST, option_path,
	 "UNIX socket that the virtual machine connects to\ndefault: the first free one of /tmp/passt_1.socket and so on",
	 CFG(socket_path), 107},
	{0, "socket-path", "PATH", WHERE_PASST, option_path, "The same", CFG(socket_path), 107},
	{'F', "fd", "FD", WHERE_BOTH, option_fd, "Descriptor of a connected UNIX socket to use instead, as with\n--one-off; pasta: of a tap device", 0, 0},
	{'1', "one-off", NULL, WHERE_PASST, option_flag, "End when the first client has gone", CFG(one_off), true},
	{0, "vhost-user", NULL, WHERE_BOTH, option_vhost_user,
	 "Be the back end of a vhost-user network device, not of\nQEMU's stream socket; under the name pasta, too", 0, 0},
	{0, "print-capabilities", NULL, WHERE_BOTH, option_action, "Say in JSON what kind of vhost-user back end this is, and\nexit", 0,
	 ACTION_CAPABILITIES},
	{0, "repair-path", "PATH|none", WHERE_PASST, option_repair_path, "No effect: guests are not migrated, nor is there a helper", 0, 0},
	{0, "migrate-exit", NULL, WHERE_PASST, option_migrate, "Deprecated, no effect, with --vhost-user only", 0, 0},
	{0, "migrate-no-linger", NULL, WHERE_PASST, option_migrate, "Deprecated, no effect, with --vhost-user only", 0, 0},

	/* The namespace. */
	{'I', "ns-ifname", "NAME", WHERE_PASTA, option_ifname,
	 "Name of the interface in the namespace\ndefault: as on the host, or tap0", CFG(ns_ifname), true},
	{0, "config-net", NULL, WHERE_PASTA, option_flag, "Configure the interface in the namespace", CFG(config_net), true},
	{0, "ns-mac-addr", "MAC", WHERE_PASTA, option_ns_mac, "MAC address of the interface in the namespace\ndefault: random", 0, 0},
	{0, "userns", "PATH", WHERE_PASTA, option_userns, "User namespace to join", 0, 0},
	{0, "netns", "PATH|NAME", WHERE_PASTA, option_path, "Network namespace to join", CFG(netns), PATH_MAX - 12},
	{0, "netns-only", NULL, WHERE_PASTA, option_netns_only,
	 "Join or create no user namespace; implied by --netns\nwithout --userns", 0, 0},
	{0, "no-netns-quit", NULL, WHERE_PASTA, option_flag, "Go on when the network namespace joined is gone",
	 CFG(netns_quit), false},
	{0, "no-copy-routes", NULL, WHERE_PASTA, option_no_copy, "Deprecated: no copies of the host's routes", CFG(copy_routes), 0},
	{0, "no-copy-addrs", NULL, WHERE_PASTA, option_no_copy, "Deprecated: no copies of the host's addresses",
	 CFG(copy_addresses), 0},
};
/* clang-format on */

const unsigned option_count = sizeof(option_rows) / sizeof(option_rows[0]);
_Static_assert(sizeof(option_rows) / sizeof(option_rows[0]) <= OPTION_COUNT_MAX,
	       "arrays of config.c hold all rows");
