/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line, and what is done at once. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "passt/config.h"
#include "passt/files.h"
#include "passt/instance.h"

/* A kernel without IPv6 (built so, or booted with ipv6.disable=1) means IPv4 only, unless IPv6 only
 * was asked for. */
static int check_ipv6(struct config *cfg)
{
	cleanup_fd int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 || errno != EAFNOSUPPORT || !cfg->family[IP_V6].on)
		return 0;
	if (!cfg->family[IP_V4].on) {
		log_err("--ipv6-only: this kernel has no IPv6");
		return -EAFNOSUPPORT;
	}
	cfg->family[IP_V6].on = false;
	return 0;
}

int main(int argc, char **argv)
{
	struct config_input input = {.argc = argc, .argv = argv};
	char error[CONFIG_ERROR_MAX];
	struct config cfg;
	bool usage = false;
	const char *ident;
	int r = files_open_standard();

	if (r < 0)
		return 1;
	files_read_ephemeral(&input.ephemeral_first, &input.ephemeral_last);
	r = config_parse(&input, &cfg, error, &usage);
	ident = cfg.program == PROGRAM_PASTA ? "pasta" : "passt";
	if (r < 0) {
		fprintf(stderr, "%s\n", error);
		if (usage)
			config_print_usage(&cfg, argv[0], stderr);
		return 1;
	}
	if (cfg.action == ACTION_HELP) {
		config_print_help(&cfg, argv[0], stdout);
		return fflush(stdout) ? 1 : 0;
	}
	if (cfg.action == ACTION_VERSION) {
		config_print_version(&cfg, stdout);
		return fflush(stdout) ? 1 : 0;
	}
	if (cfg.action == ACTION_CAPABILITIES) {
		config_print_capabilities(stdout);
		return fflush(stdout) ? 1 : 0;
	}
	log_set_threshold(cfg.log_level);
	log_set_stderr(true, cfg.log_level >= LOG_LEVEL_DEBUG);
	config_log_warnings(&cfg);
	r = files_close_others(cfg.fd);
	if (r < 0)
		log_err("--fd %d: %s", cfg.fd, strerror(-r));
	if (!r)
		r = check_ipv6(&cfg);
	if (!r)
		r = instance_run(&cfg, ident);
	/* Not exit(3): what would run then (a sanitizer's leak check) makes calls that the sandbox
	 * has not. */
	_exit(r < 0 ? 1 : r);
}
