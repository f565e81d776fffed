/* SPDX-License-Identifier: BSD-3-Clause */
/* What the command line says, as plain values: parsed, then checked, then const. Opening, looking
 * up and printing come later. */
#ifndef PASST_CONFIG_H
#define PASST_CONFIG_H

#include <stdio.h>
#include <sys/types.h>

#include "core/log.h"
#include "host/host.h"
#include "nat/forward.h"

enum program { PROGRAM_PASST, PROGRAM_PASTA };
enum config_action { ACTION_RUN, ACTION_HELP, ACTION_VERSION, ACTION_CAPABILITIES };

struct config_family {
	bool on;
	bool address_set, prefix_set, gateway_set; /* -a, its /L or -n, -g */
	struct ip_addr address, gateway, outbound; /* unspecified: not given */
	unsigned prefix_len;
	const char *outbound_if; /* or NULL */
	struct ip_addr dns[RESOLVER_DNS_MAX];
	unsigned dns_count;
	struct ip_addr dns_forward, dns_host;
	struct ip_addr map_host_loopback, map_guest_addr; /* unspecified: not given */
};

#define CONFIG_DEPRECATED_MAX 8

struct config {
	enum program program;
	enum config_action action;

	/* Messages and files; strings point into argv. */
	enum log_level log_level;
	bool foreground;
	unsigned stats_seconds; /* --stats, or 0 */
	const char *log_file, *pcap, *pid_file;
	size_t log_size;
	const char *runas;     /* as given; looked up later */
	const char *conf_path; /* or NULL; reserved for a control socket */

	const char
	    *deprecated[CONFIG_DEPRECATED_MAX]; /* options given that have no effect or no future */
	unsigned deprecated_count;

	/* The guest. */
	unsigned mtu; /* 0: neither advertised nor set */
	struct mac_addr our_mac, ns_mac;
	bool ns_mac_set;
	const char *interface; /* -i, or NULL */
	struct config_family family[IP_FAMILIES];
	bool dns_off; /* -D none */
	char search[RESOLVER_SEARCH_MAX][RESOLVER_NAME_MAX];
	unsigned search_count;
	bool search_given, search_off;
	const char *hostname, *fqdn;
	bool dhcp_dns, dhcp_search; /* tell the guest of them by DHCP, DHCPv6 and NDP */
	bool map_gw;                /* gateway maps to host loopback by default */
	bool map_host_loopback_none;
	bool tcp_on, udp_on, icmp_on, ndp_on, ra_on, dhcp_on, dhcpv6_on;

	/* Flows that come in by forwarding rules. */
	struct rule_table ports[FORWARD_SIDES]; /* of listeners there: -t -u, and -T -U */
	bool freebind, splice_on, splice_only, host_lo_to_ns_lo;

	/* passt: the virtual machine. */
	const char *socket_path; /* or NULL */
	bool one_off, vhost_user;
	int fd; /* --fd, or -1 */

	/* pasta: the namespace. */
	const char *ns_ifname;
	bool config_net, copy_routes, copy_addresses;
	const char *netns, *userns; /* as given */
	bool netns_only, netns_quit;
	pid_t target_pid; /* 0: none */
	char **command;   /* NULL-terminated, or NULL: the shell */
};

#define CONFIG_ERROR_MAX 512

/* What is parsed, and what is known of the host: its range of ephemeral ports, which `-t all` and
 * the like leave out. */
struct config_input {
	int argc;
	char **argv;
	uint16_t ephemeral_first, ephemeral_last;
};

/* Parses and checks. Opens nothing, prints nothing, and may be called again and again. 0, or
 * -EINVAL with one line in error that names the option and value (*usage then says whether usage
 * text belongs after it: for what getopt itself finds fault with). out->program is set on failure
 * too, whenever argv[0] tells it. argv may be permuted, never written to, and must outlive *out.
 * With an action other than ACTION_RUN nothing behind that option was looked at. */
int config_parse(const struct config_input *in, struct config *out, char error[CONFIG_ERROR_MAX],
		 bool *usage) must_check;

/* Says what is doubtful, though no error, about a command line: deprecated options, a control
 * socket that there will not be, an MTU too small for a family. */
void config_log_warnings(const struct config *cfg);

/* Usage: a line for each way to call this program. Help: usage and the option rows. Version: name,
 * version, licence. */
void config_print_usage(const struct config *cfg, const char *argv0, FILE *f);
void config_print_help(const struct config *cfg, const char *argv0, FILE *f);
void config_print_version(const struct config *cfg, FILE *f);

/* What QEMU's conventions for vhost-user back-end programs ask for: JSON that tells the type. */
void config_print_capabilities(FILE *f);

#endif
