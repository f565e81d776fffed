/* SPDX-License-Identifier: BSD-3-Clause */
#include "nat/translate.h"

static bool is_set(const struct ip_addr *a)
{
	return !ip_is_unspecified(a);
}

void nat_guest_init(struct nat_guest *g, const struct nat_config *cfg)
{
	for (int f = 0; f < IP_FAMILIES; f++)
		g->seen[f] = cfg->family[f].guest_assigned;
	g->link_local_seen = ip_any[IP_V6];
}

void nat_guest_learn(struct nat_guest *g, const struct nat_config *cfg, const struct ip_addr *src)
{
	enum ip_family f = ip_family(src);
	bool fixed = cfg->family[f].address_fixed;

	if (ip_is_unspecified(src))
		return;
	if (f == IP_V6 && ip_is_link_local(src)) {
		g->link_local_seen = *src;
		if (is_set(&g->seen[f]))
			return;
	}
	if (!fixed || !is_set(&g->seen[f]))
		g->seen[f] = *src;
}

struct ip_addr nat_to_host(const struct nat_config *cfg, uint8_t proto, const struct endpoint *dst)
{
	enum ip_family f = ip_family(&dst->addr);
	const struct nat_family *nf = &cfg->family[f];
	bool dns =
	    (proto == IPPROTO_TCP || proto == IPPROTO_UDP) && (dst->port == 53 || dst->port == 853);

	if (dns && is_set(&nf->dns_forward) && ip_equal(&dst->addr, &nf->dns_forward) &&
	    is_set(&nf->dns_host))
		return nf->dns_host;
	if (is_set(&nf->map_host_loopback) && ip_equal(&dst->addr, &nf->map_host_loopback))
		return ip_loopback[f];
	if (is_set(&nf->map_guest_addr) && ip_equal(&dst->addr, &nf->map_guest_addr) &&
	    is_set(&nf->guest_assigned))
		return nf->guest_assigned;
	return dst->addr;
}

struct ip_addr nat_source_for_guest(const struct nat_config *cfg, const struct nat_guest *g,
				    const struct ip_addr *src)
{
	enum ip_family f = ip_family(src);
	const struct nat_family *nf = &cfg->family[f];

	if (ip_equal(src, &ip_loopback[f]) && is_set(&nf->map_host_loopback))
		return nf->map_host_loopback;
	if (is_set(&nf->guest_assigned) && ip_equal(src, &nf->guest_assigned)) {
		if (is_set(&nf->map_guest_addr))
			return nf->map_guest_addr;
	} else if (!ip_is_loopback(src) && is_set(src) && !ip_equal(src, &g->seen[f])) {
		return *src;
	}
	return f == IP_V4 ? nf->gateway : cfg->our_link_local;
}

struct ip_addr nat_router_for_guest(const struct nat_config *cfg, const struct ip_addr *dst)
{
	enum ip_family f = ip_family(dst);
	const struct ip_addr *a = f == IP_V4 ? &cfg->family[IP_V4].gateway : &cfg->our_link_local;

	return ip_is_unspecified(a) || ip_family(a) != f ? *dst : *a;
}
