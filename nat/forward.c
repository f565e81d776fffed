/* SPDX-License-Identifier: BSD-3-Clause */
#include "nat/forward.h"

static bool is_set(const struct ip_addr *a)
{
	return !ip_is_unspecified(a);
}

static void refuse(struct forward_decision *d, const char *why)
{
	*d = (struct forward_decision){.verdict = FORWARD_REFUSE, .why = why};
}

/* Joins loopback with loopback: a service in the guest sees a local client. TCP's source port is
 * the kernel's choice, UDP keeps it, since replies may depend on it. */
static void splice_to(const struct forward_port *port, const struct endpoint *peer,
		      const struct ip_addr *dst, struct forward_decision *d)
{
	*d = (struct forward_decision){
	    .verdict = FORWARD_SPLICE,
	    .src = {ip_any[ip_family(dst)], port->rule->proto == IPPROTO_UDP ? peer->port : 0},
	    .dst = {*dst, forward_target_port(port)},
	};
}

/* Guest's loopback to the host's. */
static void decide_from_ns(const struct forward_port *port, const struct forward_ends *ends,
			   struct forward_decision *out)
{
	if (ip_is_loopback(&ends->peer.addr) && ip_is_loopback(&ends->local.addr))
		splice_to(port, &ends->peer, &ends->local.addr, out);
	else
		refuse(out, "not from loopback to loopback");
}

/* What the guest sees as source, or unspecified. Without an alias for the host's loopback nothing
 * that comes from there reaches the guest: that is what taking the alias away says. */
static struct ip_addr source_on_tap(const struct nat_config *cfg, const struct nat_guest *guest,
				    const struct ip_addr *src)
{
	enum ip_family f = ip_family(src);

	if (ip_is_loopback(src) && !is_set(&cfg->family[f].map_host_loopback))
		return ip_any[f];
	return nat_source_for_guest(cfg, guest, src);
}

static void decide_tap(const struct nat_config *cfg, const struct nat_guest *guest,
		       const struct forward_port *port, const struct endpoint *peer,
		       struct forward_decision *out)
{
	enum ip_family f = ip_family(&peer->addr);
	struct ip_addr src = source_on_tap(cfg, guest, &peer->addr), dst = out->dst.addr;

	if (!is_set(&src)) {
		refuse(out, "the guest has no name for the source");
		return;
	}
	if (!is_set(&dst))
		dst = f == IP_V6 && ip_is_link_local(&src) && is_set(&guest->link_local_seen)
			  ? guest->link_local_seen
			  : guest->seen[f];
	if (!is_set(&dst) || ip_family(&dst) != f) {
		refuse(out, "the guest has no address of that family");
		return;
	}
	*out = (struct forward_decision){
	    .verdict = FORWARD_TO_TAP,
	    .src = {src, peer->port},
	    .dst = {dst, forward_target_port(port)},
	};
}

/* Behaviour e.3. */
static void decide_from_host(const struct nat_config *cfg, const struct nat_guest *guest,
			     const struct forward_port *port, const struct forward_ends *ends,
			     struct forward_decision *out)
{
	const struct endpoint *peer = &ends->peer, *local = &ends->local;
	enum ip_family f = ip_family(&peer->addr);
	bool keep = ip_is_multicast(&local->addr) ||
		    (cfg->host_lo_to_ns_lo && ip_is_loopback(&local->addr));
	struct ip_addr dst = is_set(&port->rule->target) ? port->rule->target
			     : keep                      ? local->addr
							 : ip_any[f];

	if (cfg->splice_on && !is_set(&port->rule->target) && ip_is_loopback(&peer->addr)) {
		if (!is_set(&dst))
			dst = guest->seen[f];
		if (is_set(&dst))
			splice_to(port, peer, &dst, out);
		else
			refuse(out, "the guest has no address of that family");
		return;
	}
	if (cfg->splice_only) {
		refuse(out, "not from loopback, and there is no tap");
		return;
	}
	/* A packet to the guest's own loopback address would be a martian inside. */
	out->dst.addr = ip_is_loopback(&dst) && !is_set(&port->rule->target) ? ip_any[f] : dst;
	decide_tap(cfg, guest, port, peer, out);
}

void forward_decide(const struct nat_config *cfg, const struct nat_guest *guest,
		    const struct forward_port *port, const struct forward_ends *ends,
		    struct forward_decision *out)
{
	if (port->side == FORWARD_NS)
		decide_from_ns(port, ends, out);
	else
		decide_from_host(cfg, guest, port, ends, out);
}
