/* SPDX-License-Identifier: BSD-3-Clause */
#include "passt/instance.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/memory.h"
#include "passt/daemon.h"
#include "passt/files.h"
#include "passt/forward.h"
#include "passt/plan.h"
#include "passt/report.h"
#include "passt/stack.h"
#include "passt/stats.h"
#include "passt/vm.h"
#include "pasta/pasta.h"
#include "seccomp/sandbox.h"

#define DESCRIPTORS_USUAL 1024

struct instance;

/* What differs from one kind of guest to the other. */
struct guest_kind {
	enum sandbox_profile profile;
	int (*open)(struct instance *in); /* makes its side; a message on failure */
	int (*link)(const struct instance *in, struct tap_link **out);
	int (*attach)(struct instance *in); /* to the loop; a message on failure */
	void (*leave)(struct instance *in); /* the loop has ended; or NULL */
};

/* What exists while the program runs; freed in one place. */
struct instance {
	const struct config *cfg;
	const struct guest_kind *kind;
	struct files files;
	struct host_view *host;
	struct plan plan;
	struct sandbox_identity identity;
	struct pasta *pasta; /* this one */
	struct vm *vm;       /* or that one */
	struct loop *loop;
	struct stack *stack;
	struct stats *stats; /* or NULL */
	unsigned descriptors;
	struct forward *forward;
	int tap_fd;
	struct tap_features features;
	struct netconf_result guest;
};

/* RFC 8415 11.2: modulo 2^32. */
static uint32_t seconds_since_2000(void)
{
	return (uint32_t)(time(NULL) - 946684800);
}

static int look_at_host(struct instance *in)
{
	const struct config *cfg = in->cfg;
	bool template = !cfg->splice_only;
	const struct host_request req = {
	    .family_on = {template && cfg->family[IP_V4].on, template && cfg->family[IP_V6].on},
	    .interface = cfg->interface,
	    .outbound_if = {cfg->family[IP_V4].outbound_if, cfg->family[IP_V6].outbound_if},
	};
	struct resolver resolver = {0};
	const char *culprit = NULL;
	int r = host_view_new(&req, &in->host, &culprit);

	if (r == -ENODEV && culprit) {
		log_err("%s %s: no such interface on the host",
			cfg->interface ? "--interface" : "--outbound-if4 or --outbound-if6",
			culprit);
		return r;
	}
	if (r < 0) {
		log_err("Can't read the host's interfaces and routes: %s", strerror(-r));
		return r;
	}
	r = resolver_read("/etc/resolv.conf", &resolver);
	if (r < 0 && r != -ENOENT)
		log_warn("Can't read /etc/resolv.conf: %s", strerror(-r));
	plan_make(cfg, in->host, &resolver, &in->plan);
	in->plan.dhcpv6.duid_time = seconds_since_2000();
	return 0;
}

static bool any_scan(const struct rule_table *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		if (t->rules[i].scan)
			return true;
	}
	return false;
}

static int open_pasta(struct instance *in)
{
	const struct config *cfg = in->cfg;
	bool joins = cfg->target_pid || cfg->netns;
	const struct pasta_config pc = {
	    .command = cfg->command,
	    .target_pid = cfg->target_pid,
	    .netns = cfg->netns,
	    .userns = cfg->userns,
	    .netns_only = cfg->netns_only,
	    .netns_quit = cfg->netns_quit,
	    .hostname = cfg->hostname,
	    .net = in->plan.net,
	    .wants_sockets = in->plan.nat.splice_on && cfg->ports[FORWARD_HOST].count,
	    .wants_listeners = cfg->ports[FORWARD_NS].count,
	    .wants_ports = any_scan(&cfg->ports[FORWARD_HOST]),
	    .background = joins && !cfg->foreground,
	    .identity = in->identity,
	};
	int r = pasta_start(&pc, &in->pasta, &in->tap_fd, &in->features, &in->guest);

	for (int f = 0; !r && f < IP_FAMILIES; f++) {
		if (in->guest.family_unsupported[f])
			in->plan.nat.family[f].on = false;
	}
	return r;
}

static bool has_command(const struct instance *in)
{
	return in->pasta && pasta_has_command(in->pasta);
}

static int pasta_link(const struct instance *in, struct tap_link **out)
{
	if (in->cfg->splice_only)
		return none_link_new(out);
	if (in->cfg->fd >= 0)
		return tun_link_adopt(in->cfg->fd, out);
	return tun_link_new(in->tap_fd, &in->features, out);
}

static int attach_pasta(struct instance *in)
{
	return pasta_attach(in->pasta, in->loop);
}

static void leave_pasta(struct instance *in)
{
	pasta_leave(in->pasta, in->tap_fd);
}

static int open_vm(struct instance *in)
{
	in->guest.mac = mac_broadcast; /* until it has sent something */
	return vm_open(in->cfg, &in->identity, &in->vm);
}

static int stream_link(const struct instance *in, struct tap_link **out)
{
	(void)in;
	return stream_link_new(out);
}

static int vhost_link(const struct instance *in, struct tap_link **out)
{
	(void)in;
	return vhost_link_new(out);
}

static void vm_left(void *arg, int err)
{
	const struct instance *in = arg;

	vm_gone(in->vm, err);
}

static int vm_came(void *arg, int fd)
{
	const struct instance *in = arg;

	return stack_attach(in->stack, fd);
}

static int attach_vm(struct instance *in)
{
	return vm_start(in->vm, in->loop, vm_came, in);
}

static const struct guest_kind *kind_of(const struct config *cfg)
{
	static const struct guest_kind pasta = {SANDBOX_ENGINE_PASTA, open_pasta, pasta_link,
						attach_pasta, leave_pasta},
				       passt = {SANDBOX_ENGINE_PASST, open_vm, stream_link,
						attach_vm, NULL},
				       vhost = {SANDBOX_ENGINE_VHOST, open_vm, vhost_link,
						attach_vm, NULL};

	return cfg->program == PROGRAM_PASTA ? &pasta : cfg->vhost_user ? &vhost : &passt;
}

/* Every flow is a descriptor. After the fork of the agent, so that the command keeps its caller's
 * limit. Returns how many there may be. */
static unsigned raise_descriptor_limit(void)
{
	struct rlimit limit, raised;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return DESCRIPTORS_USUAL;
	raised = (struct rlimit){limit.rlim_max, limit.rlim_max};
	if (setrlimit(RLIMIT_NOFILE, &raised) < 0)
		log_debug("Can't raise the limit on descriptors: %s", strerror(errno));
	else
		limit = raised;
	return limit.rlim_cur < INT_MAX ? (unsigned)limit.rlim_cur : INT_MAX;
}

static int open_ns(void *arg, const struct rule *rule, uint16_t first, uint16_t last, int *results)
{
	const struct instance *in = arg;

	return pasta_listen(in->pasta, rule, first, last, results);
}

static int serve_port(void *arg, struct forward_port *port)
{
	const struct instance *in = arg;

	return stack_listen(in->stack, port);
}

static void unserve_port(void *arg, struct forward_port *port)
{
	const struct instance *in = arg;

	stack_unlisten(in->stack, port);
}

/* With all privileges that there are, and before anybody is told that we are ready. */
static int open_ports(struct instance *in)
{
	const struct forward_ops ops = {.open_ns = open_ns,
					.ns_ports = in->pasta ? pasta_ports(in->pasta) : NULL,
					.serve = serve_port,
					.unserve = unserve_port,
					.arg = in};
	int r;

	in->descriptors = raise_descriptor_limit();
	r = forward_new(in->cfg->ports, in->cfg->freebind, &ops, &in->forward);
	if (r < 0)
		return r;
	for (int side = 0; side < FORWARD_SIDES; side++)
		in->descriptors -= forward_port_count(in->forward, (enum forward_side)side);
	return 0;
}

static int serve_ports(struct instance *in)
{
	int r = forward_serve(in->forward, in->loop);

	if (r < 0)
		log_err("Can't serve the ports to forward: %s", strerror(-r));
	return r;
}

/* The host view was for the agent too, which has its copy. */
static void forget_host(struct instance *in)
{
	host_view_free(in->host);
	in->host = NULL;
	in->plan.net.host = NULL;
}

static int make_stack(struct instance *in)
{
	const struct config *cfg = in->cfg;
	const struct stack_config sc = {
	    .nat = in->plan.nat,
	    .ndp = in->plan.ndp,
	    .dhcp = in->plan.dhcp,
	    .dhcpv6 = in->plan.dhcpv6,
	    .dhcp_on = in->plan.dhcp_on,
	    .dhcpv6_on = in->plan.dhcpv6_on,
	    .guest_there = in->pasta && !cfg->splice_only,
	    .tap = {.our_mac = cfg->our_mac,
		    .guest_mac = in->guest.mac,
		    .mtu = cfg->mtu ? cfg->mtu : 65520},
	    .sides = in->pasta ? pasta_sides(in->pasta) : NULL,
	    .tcp_on = cfg->tcp_on,
	    .udp_on = cfg->udp_on,
	    .icmp_on = cfg->icmp_on,
	    .ndp_on = cfg->ndp_on,
	    .pcap_fd = in->files.pcap,
	    .descriptors = in->descriptors,
	    .guest_gone = vm_left,
	    .guest_arg = in,
	};
	struct tap_link *link;
	int r = loop_new(&in->loop);

	if (!r)
		r = in->kind->link(in, &link);
	if (!r)
		r = stack_new(in->loop, link, &sc, &in->stack);
	if (!r && cfg->stats_seconds)
		r = stats_new(in->loop, in->stack, cfg->stats_seconds * USEC_SEC, &in->stats);
	if (r < 0)
		log_err("Can't set up the network stack: %s", strerror(-r));
	return r;
}

/* Ready in every respect: the caller may know, the command may start. */
static int announce(struct instance *in, bool background, int ready_fd)
{
	bool command = has_command(in);
	bool debug = in->cfg->log_level >= LOG_LEVEL_DEBUG;
	int r = 0;

	if (in->cfg->config_net && !in->cfg->splice_only)
		stack_announce(in->stack);
	if (background)
		r = daemon_ready(&in->files, ready_fd);
	else
		r = files_write_pid(&in->files, getpid());
	if (r < 0)
		return r;
	/* A command has the terminal to itself but for warnings; a log file takes it all. */
	if (background || (command && in->cfg->log_file))
		log_set_stderr(false, false);
	else if (command && !debug && log_threshold() > LOG_LEVEL_WARN)
		log_set_threshold(LOG_LEVEL_WARN);
	return in->pasta ? pasta_release(in->pasta) : 0;
}

static int run(struct instance *in)
{
	bool background = !has_command(in) && !in->cfg->foreground;
	const char *step = NULL;
	int ready_fd = -1, r;

	r = sandbox_engine_enter(&in->identity, background, &step);
	if (r < 0) {
		log_err("Can't enter the sandbox: %s: %s", step, strerror(-r));
		return r;
	}
	if (step)
		log_warn("No empty root for the packet engine, going on without: %s is not "
			 "permitted here",
			 step);
	if (background)
		r = daemon_fork(&in->files, &ready_fd);
	if (r < 0) {
		log_err("Can't go to the background: %s", strerror(-r));
		return r;
	}
	r = make_stack(in);
	if (!r)
		r = in->kind->attach(in);
	if (!r)
		r = serve_ports(in);
	if (r < 0)
		return r;
	r = sandbox_seal(in->kind->profile, &step);
	if (r < 0) {
		log_err("Can't seal the sandbox: %s: %s", step, strerror(-r));
		return r;
	}
	memory_trim();
	r = announce(in, background, ready_fd);
	if (!r)
		r = loop_run(in->loop);
	/* First of all, for who waits for the same ports. */
	forward_free(in->forward);
	in->forward = NULL;
	if (in->kind->leave)
		in->kind->leave(in);
	if (r >= 0 && has_command(in))
		stack_finish(in->stack);
	stack_log_counters(in->stack);
	return r;
}

int instance_run(const struct config *cfg, const char *ident)
{
	struct instance in = {.cfg = cfg,
			      .kind = kind_of(cfg),
			      .tap_fd = -1,
			      .files = {.null = -1, .pid = -1, .pcap = -1, .pid_file.dir = -1}};
	int r = sandbox_identity_get(cfg->runas, &in.identity);

	if (r < 0) {
		log_err("--runas %s: %s", cfg->runas ? cfg->runas : "nobody", strerror(-r));
		return r;
	}
	if (cfg->program == PROGRAM_PASST)
		vm_hold_signals();
	r = look_at_host(&in);
	if (!r)
		r = files_open(cfg, ident, &in.files);
	if (!r)
		r = in.kind->open(&in);
	if (!r) {
		report_warnings(cfg, &in.plan);
		r = open_ports(&in);
	}
	if (!r) {
		report_plan(cfg, &in.plan, in.vm ? vm_socket_path(in.vm) : NULL,
			    has_command(&in) ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO);
		forget_host(&in);
		r = run(&in);
	}
	forward_free(in.forward);
	stats_free(in.stats);
	stack_free(in.stack);
	pasta_free(in.pasta);
	vm_free(in.vm);
	own_file_remove(&in.files.pid_file);
	loop_free(in.loop);
	host_view_free(in.host);
	log_close();
	if (cfg->program == PROGRAM_PASST)
		vm_let_signals_through();
	return r;
}
