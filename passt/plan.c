/* SPDX-License-Identifier: BSD-3-Clause */
#include "passt/plan.h"

#include <stdio.h>

_Static_assert(DHCP_DNS_MAX >= RESOLVER_DNS_MAX && DHCP_SEARCH_MAX >= RESOLVER_SEARCH_MAX,
	       "all of the resolver can be told by DHCP");

/* Addresses of a guest whose host has no network: local mode. */
static const struct {
	const char *address, *gateway;
	unsigned prefix_len;
} local_defaults[IP_FAMILIES] = {
    [IP_V4] = {"169.254.2.1", "169.254.2.2", 16},
    [IP_V6] = {NULL, "fe80::1", 64},
};

static struct ip_addr literal(const char *text, enum ip_family f)
{
	struct ip_addr a;

	return text && !ip_parse(text, &a) ? a : ip_any[f];
}

static bool is_set(const struct ip_addr *a)
{
	return !ip_is_unspecified(a);
}

/* The prefix length of an IPv4 address's class (RFC 791 2.3), for -a without one. */
static unsigned class_prefix(const struct ip_addr *a)
{
	uint8_t first = ip_bytes(a)[0];

	return first < 128 ? 8 : first < 192 ? 16 : first < 224 ? 24 : 32;
}

static unsigned prefix_of(const struct config_family *cf, const struct host_family *hf,
			  enum ip_family f, bool local)
{
	if (f == IP_V6)
		return cf->address_set || local ? 64 : hf->prefix_len;
	if (cf->prefix_set && (cf->address_set || local))
		return cf->prefix_len;
	if (cf->address_set)
		return class_prefix(&cf->address);
	if (local)
		return local_defaults[f].prefix_len;
	return hf->prefix_len ? hf->prefix_len : class_prefix(&hf->address);
}

static void plan_network(const struct config *cfg, const struct host_family *hf, enum ip_family f,
			 struct plan *p)
{
	const struct config_family *cf = &cfg->family[f];
	struct netconf_family *net = &p->net.family[f];
	bool local = cf->on && !hf->found && !cfg->splice_only;

	p->local_mode[f] = local;
	*net = (struct netconf_family){
	    .on = cf->on,
	    .copy_addresses = cfg->copy_addresses && !cf->address_set && !local,
	    .copy_routes = cfg->copy_routes && !cf->gateway_set && !local,
	    .address = cf->address_set ? cf->address
		       : local         ? literal(local_defaults[f].address, f)
				       : hf->address,
	    .gateway = cf->gateway_set ? cf->gateway
		       : local         ? literal(local_defaults[f].gateway, f)
				       : hf->gateway,
	    .prefix_len = prefix_of(cf, hf, f, local),
	};
}

static void plan_nat(const struct config *cfg, const struct host_family *hf, enum ip_family f,
		     struct plan *p)
{
	const struct config_family *cf = &cfg->family[f];
	const struct netconf_family *net = &p->net.family[f];
	struct nat_family *nf = &p->nat.family[f];
	bool map_gw = cfg->map_gw && !cfg->map_host_loopback_none;

	*nf = (struct nat_family){
	    .on = cf->on,
	    .guest_assigned = net->address,
	    .gateway = net->gateway,
	    .map_host_loopback = is_set(&cf->map_host_loopback) ? cf->map_host_loopback
				 : map_gw                       ? net->gateway
								: ip_any[f],
	    .map_guest_addr = cf->map_guest_addr,
	    .dns_forward = cf->dns_forward,
	    .dns_host = ip_any[f],
	    .outbound = cf->outbound,
	    .address_fixed = cf->address_set,
	    .template_index = hf->ifindex,
	};
	if (cf->outbound_if)
		snprintf(nf->outbound_if, sizeof(nf->outbound_if), "%s", cf->outbound_if);
}

/* One name server as the guest reaches it. A server on the host's loopback is reached by the alias
 * for name servers or, without one, by the host's alias, which then serves as the other;
 * unspecified if there is no way. */
static struct ip_addr dns_for_guest(struct nat_family *nf, enum ip_family f,
				    const struct ip_addr *server)
{
	bool alias = is_set(&nf->map_host_loopback) && ip_equal(server, &nf->map_host_loopback);

	if (!ip_is_loopback(server) && !alias)
		return *server;
	if (is_set(&nf->dns_forward))
		return nf->dns_forward;
	if (!is_set(&nf->map_host_loopback))
		return ip_any[f];
	nf->dns_forward = nf->map_host_loopback;
	return nf->map_host_loopback;
}

static void plan_dns(const struct config *cfg, const struct resolver *host_dns, enum ip_family f,
		     struct plan *p)
{
	const struct config_family *cf = &cfg->family[f];
	struct nat_family *nf = &p->nat.family[f];
	struct resolver *r = &p->resolver;

	if (cfg->dns_off)
		return;
	nf->dns_host = is_set(&cf->dns_host)    ? cf->dns_host
		       : host_dns->dns_count[f] ? host_dns->dns[f][0]
						: ip_any[f];
	for (unsigned i = 0; i < cf->dns_count; i++)
		r->dns[f][r->dns_count[f]++] = cf->dns[i];
	for (unsigned i = 0; !cf->dns_count && i < host_dns->dns_count[f]; i++) {
		struct ip_addr a = dns_for_guest(nf, f, &host_dns->dns[f][i]);

		if (is_set(&a))
			r->dns[f][r->dns_count[f]++] = a;
		else
			p->dns_left_out++;
	}
}

static void plan_search(const struct config *cfg, const struct resolver *host_dns, struct plan *p)
{
	const char(*from)[RESOLVER_NAME_MAX] = cfg->search_given ? cfg->search : host_dns->search;
	unsigned count = cfg->search_given ? cfg->search_count : host_dns->search_count;

	if (cfg->search_off)
		return;
	memcpy(p->resolver.search, from, count * sizeof(from[0]));
	p->resolver.search_count = count;
}

/* Source of our neighbour discovery: the gateway if that is link-local, as guests expect of their
 * router. */
static struct ip_addr our_link_local(const struct netconf_family *net, const struct host_family *hf)
{
	if (ip_is_link_local(&net->gateway))
		return net->gateway;
	if (hf->found && is_set(&hf->link_local))
		return hf->link_local;
	return literal(local_defaults[IP_V6].gateway, IP_V6);
}

/* The resolver is told as by DHCP. */
static void plan_ndp(const struct config *cfg, struct plan *p)
{
	const struct resolver *r = &p->resolver;
	struct ndp_config *n = &p->ndp;

	*n = (struct ndp_config){
	    .ra_on = cfg->ra_on && !cfg->config_net,
	    .managed = p->dhcpv6_on,
	    .our_link_local = p->nat.our_link_local,
	    .prefix = p->net.family[IP_V6].address,
	    .mtu = cfg->mtu,
	};
	for (unsigned i = 0; cfg->dhcp_dns && i < r->dns_count[IP_V6]; i++)
		n->dns[n->dns_count++] = r->dns[IP_V6][i];
	for (unsigned i = 0; cfg->dhcp_search && i < r->search_count; i++)
		n->search[n->search_count++] = r->search[i];
}

static void plan_dhcpv6(const struct config *cfg, struct plan *p)
{
	const struct resolver *r = &p->resolver;
	struct dhcpv6_config *d = &p->dhcpv6;

	p->dhcpv6_on = cfg->dhcpv6_on && is_set(&p->net.family[IP_V6].address);
	*d = (struct dhcpv6_config){.address = p->net.family[IP_V6].address,
				    .our_link_local = p->nat.our_link_local,
				    .fqdn = cfg->fqdn};
	for (unsigned i = 0; cfg->dhcp_dns && i < r->dns_count[IP_V6]; i++)
		d->dns[d->dns_count++] = r->dns[IP_V6][i];
	for (unsigned i = 0; cfg->dhcp_search && i < r->search_count; i++)
		d->search[d->search_count++] = r->search[i];
}

/* The server is the gateway: without one there is none. */
static void plan_dhcp(const struct config *cfg, struct plan *p)
{
	const struct netconf_family *net = &p->net.family[IP_V4];
	const struct resolver *r = &p->resolver;
	struct dhcp_config *d = &p->dhcp;

	p->dhcp_on = cfg->dhcp_on && is_set(&net->gateway) && is_set(&net->address);
	*d = (struct dhcp_config){.address = net->address,
				  .prefix_len = net->prefix_len,
				  .gateway = net->gateway,
				  .mtu = cfg->mtu,
				  .hostname = cfg->hostname,
				  .fqdn = cfg->fqdn};
	for (unsigned i = 0; cfg->dhcp_dns && i < r->dns_count[IP_V4]; i++)
		d->dns[d->dns_count++] = r->dns[IP_V4][i];
	for (unsigned i = 0; cfg->dhcp_search && i < r->search_count; i++)
		d->search[d->search_count++] = r->search[i];
}

void plan_make(const struct config *cfg, const struct host_view *host,
	       const struct resolver *host_dns, struct plan *out)
{
	const char *name = "tap0";

	*out = (struct plan){0};
	for (int i = 0; i < IP_FAMILIES; i++) {
		enum ip_family f =
		    (enum ip_family)(IP_FAMILIES - 1 - i); /* IPv4 last: its interface names ours */
		const struct host_family *hf = host_view_family(host, f);

		plan_network(cfg, hf, f, out);
		plan_nat(cfg, hf, f, out);
		plan_dns(cfg, host_dns, f, out);
		if (cfg->family[f].on && hf->found)
			name = hf->ifname;
	}
	plan_search(cfg, host_dns, out);
	out->nat.our_link_local =
	    our_link_local(&out->net.family[IP_V6], host_view_family(host, IP_V6));
	plan_dhcp(cfg, out);
	plan_dhcpv6(cfg, out);
	plan_ndp(cfg, out);
	snprintf(out->net.ifname, sizeof(out->net.ifname), "%s",
		 cfg->ns_ifname ? cfg->ns_ifname : name);
	out->nat.splice_on = cfg->program == PROGRAM_PASTA && cfg->splice_on;
	out->nat.splice_only = cfg->splice_only;
	out->nat.host_lo_to_ns_lo = cfg->host_lo_to_ns_lo;
	out->net.configure = cfg->config_net && !cfg->splice_only;
	out->net.lo_only = cfg->splice_only;
	out->net.untouched = cfg->program == PROGRAM_PASTA && cfg->fd >= 0;
	out->net.mtu = cfg->mtu;
	out->net.mac_set = cfg->ns_mac_set && !cfg->splice_only;
	out->net.mac = cfg->ns_mac;
	out->net.host = host;
}
