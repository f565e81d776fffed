/* SPDX-License-Identifier: BSD-3-Clause */
#include "passt/report.h"

static const char *const family_names[IP_FAMILIES] = {[IP_V4] = "IPv4", [IP_V6] = "IPv6"};

/* A family whose servers are asked for what the host doesn't have. */
static void warn_of_name_servers(const struct config *cfg, const struct plan *plan)
{
	const struct resolver *r = &plan->resolver;

	if (!r->dns_count[IP_V4] && !r->dns_count[IP_V6]) {
		if (!cfg->config_net)
			log_warn("No name server found: the guest gets none");
		return;
	}
	if (!cfg->dhcp_dns)
		return;
	if (!r->dns_count[IP_V4] && plan->dhcp_on)
		log_warn("No IPv4 name server found: the guest gets none by DHCP");
	if (!r->dns_count[IP_V6] && (plan->dhcpv6_on || plan->ndp.ra_on))
		log_warn("No IPv6 name server found: the guest gets none by DHCPv6 or router "
			 "advertisements");
}

void report_warnings(const struct config *cfg, const struct plan *plan)
{
	for (int f = 0; f < IP_FAMILIES; f++) {
		if (plan->local_mode[f])
			log_info("No usable %s network on the host: local mode, the guest reaches "
				 "only the host",
				 family_names[f]);
	}
	if (plan->dns_left_out)
		log_info("%u name server(s) on the host's loopback left out: the guest has no "
			 "alias for it",
			 plan->dns_left_out);
	if (!cfg->dns_off)
		warn_of_name_servers(cfg, plan);
}

static void report_interfaces(const struct config *cfg, const struct plan *plan,
			      enum log_level level)
{
	for (int f = 0; f < IP_FAMILIES; f++) {
		const struct host_family *hf = host_view_family(plan->net.host, (enum ip_family)f);
		const struct config_family *cf = &cfg->family[f];
		char buf[IP_TEXT_MAX];

		if (cf->on && hf->found)
			log_at(level, "Template interface: %s (%s)", hf->ifname, family_names[f]);
		if (cf->on && hf->found && hf->default_routes > 1 && !cfg->interface)
			log_at(level,
			       "  %u interfaces have a default route (%s): the first one is used",
			       hf->default_routes, family_names[f]);
		if (cf->outbound_if)
			log_at(level, "Outbound interface: %s (%s)", cf->outbound_if,
			       family_names[f]);
		if (!ip_is_unspecified(&cf->outbound))
			log_at(level, "Outbound address: %s", ip_format(&cf->outbound, buf));
	}
	if (cfg->program == PROGRAM_PASTA)
		log_at(level, "Namespace interface: %s", plan->net.ifname);
}

static void report_family(const struct plan *plan, enum ip_family f, enum log_level level)
{
	const struct nat_family *nf = &plan->nat.family[f];
	const struct netconf_family *net = &plan->net.family[f];
	char buf[IP_TEXT_MAX], loopback[IP_TEXT_MAX];

	if (!nf->on)
		return;
	log_at(level, "%s:", family_names[f]);
	if (!ip_is_unspecified(&nf->map_host_loopback))
		log_at(level, "    host loopback: %s is %s", ip_format(&nf->map_host_loopback, buf),
		       ip_format(&ip_loopback[f], loopback));
	if (!ip_is_unspecified(&net->address))
		log_at(level, "    assign: %s/%u", ip_format(&net->address, buf), net->prefix_len);
	if (!ip_is_unspecified(&net->gateway))
		log_at(level, "    router: %s", ip_format(&net->gateway, buf));
	if (f == IP_V6)
		log_at(level, "    our link-local: %s", ip_format(&plan->nat.our_link_local, buf));
	for (unsigned i = 0; i < plan->resolver.dns_count[f]; i++)
		log_at(level, "    DNS: %s", ip_format(&plan->resolver.dns[f][i], buf));
}

static void report_rules(const struct rule_table *table, const char *heading, enum log_level level)
{
	char buf[RULE_TEXT_MAX];

	if (!table->count)
		return;
	log_at(level, "%s:", heading);
	for (unsigned i = 0; i < table->count; i++)
		log_at(level, "    %s", rule_format(&table->rules[i], buf));
}

static void report_guest(const struct config *cfg, const struct plan *plan, enum log_level level)
{
	char mac[MAC_TEXT_MAX];

	report_interfaces(cfg, plan, level);
	log_at(level, "MAC: %s", mac_format(&cfg->our_mac, mac));
	report_family(plan, IP_V4, level);
	report_family(plan, IP_V6, level);
	for (unsigned i = 0; i < plan->resolver.search_count; i++)
		log_at(level, "Search: %s", plan->resolver.search[i]);
}

/* How a virtual machine gets here. */
static void report_qemu(const char *path, bool vhost_user, enum log_level level)
{
	if (vhost_user)
		log_at(level,
		       "QEMU: -object memory-backend-memfd,id=m,size=RAM,share=on -machine "
		       "memory-backend=m -chardev socket,id=c,path=%s "
		       "-netdev vhost-user,id=n,chardev=c -device virtio-net-pci,netdev=n",
		       path);
	else
		log_at(level,
		       "QEMU: -netdev stream,id=n,server=off,addr.type=unix,addr.path=%s "
		       "-device virtio-net-pci,netdev=n",
		       path);
}

void report_plan(const struct config *cfg, const struct plan *plan, const char *socket_path,
		 enum log_level level)
{
	if (!cfg->splice_only)
		report_guest(cfg, plan, level);
	report_rules(&cfg->ports[FORWARD_HOST], "Ports forwarded from the host", level);
	report_rules(&cfg->ports[FORWARD_NS], "Ports forwarded from the namespace", level);
	if (socket_path)
		report_qemu(socket_path, cfg->vhost_user, level);
}
