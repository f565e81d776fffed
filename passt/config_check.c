/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules between options. */
#include "passt/options.h"

#define MTU_MIN_V4 68   /* RFC 791 3.2 */
#define MTU_MIN_V6 1280 /* RFC 8200 5 */

static int check_conflicts(struct option_parse *p)
{
	const struct config *cfg = p->cfg;

	if (p->netmask_given && p->address_prefix)
		return option_error(p->error,
				    "--netmask and the prefix length in --address (/%u) can't both "
				    "be given",
				    cfg->family[IP_V4].prefix_len);
	if (cfg->stats_seconds && !cfg->foreground &&
	    (cfg->program == PROGRAM_PASST || cfg->netns || cfg->target_pid))
		return option_error(p->error, "--stats: only with --foreground");
	if (p->vhost_only && !cfg->vhost_user)
		return option_error(p->error, "--%s: only with --vhost-user", p->vhost_only);
	if (cfg->fd >= 0 && cfg->socket_path)
		return option_error(p->error, "--socket %s and --fd %d can't both be given",
				    cfg->socket_path, cfg->fd);
	if (p->no_copy && !cfg->config_net)
		return option_error(p->error, "--%s: only with --config-net", p->no_copy);
	if (cfg->netns && p->positional_count)
		return option_error(p->error, "--netns %s and %s %s can't both be given",
				    cfg->netns, cfg->target_pid ? "PID" : "command",
				    p->positional[0]);
	if (!cfg->splice_on && (cfg->splice_only || cfg->host_lo_to_ns_lo))
		return option_error(p->error, "--no-splice and --%s can't both be given",
				    cfg->splice_only ? "splice-only" : "host-lo-to-ns-lo");
	return 0;
}

/* From the general to the particular: a family that is off takes its protocols along, and so on. */
static void apply_implied(struct config *cfg)
{
	if (cfg->splice_only) { /* no link that anything could be asked or answered on */
		cfg->host_lo_to_ns_lo = true;
		cfg->icmp_on = cfg->dhcp_on = cfg->dhcpv6_on = false;
		cfg->dns_off = true;
	}
	if (!cfg->family[IP_V4].on)
		cfg->dhcp_on = false;
	if (!cfg->family[IP_V6].on)
		cfg->dhcpv6_on = cfg->ndp_on = false;
	if (!cfg->icmp_on)
		cfg->ndp_on = false;
	if (!cfg->ndp_on || cfg->config_net)
		cfg->ra_on = false;
	if (cfg->program != PROGRAM_PASTA)
		return;
	if (cfg->netns && !cfg->userns)
		cfg->netns_only = true;
	if (!cfg->netns && !cfg->target_pid)
		cfg->foreground = true; /* with a command we stay for its status */
}

int config_check(struct option_parse *p)
{
	int r = check_conflicts(p);

	if (!r)
		apply_implied(p->cfg);
	return r;
}

void config_log_warnings(const struct config *cfg)
{
	for (unsigned i = 0; i < cfg->deprecated_count; i++)
		log_warn("--%s is deprecated", cfg->deprecated[i]);
	if (cfg->conf_path)
		log_warn("--conf-path %s: there is no control socket yet, forwarding stays as it "
			 "is at start",
			 cfg->conf_path);
	if (cfg->mtu && cfg->mtu < MTU_MIN_V4 && cfg->family[IP_V4].on)
		log_warn("--mtu %u: IPv4 needs %d at least", cfg->mtu, MTU_MIN_V4);
	if (cfg->mtu && cfg->mtu < MTU_MIN_V6 && cfg->family[IP_V6].on)
		log_warn("--mtu %u: IPv6 needs %d at least", cfg->mtu, MTU_MIN_V6);
}
