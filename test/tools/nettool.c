/* SPDX-License-Identifier: BSD-3-Clause */
/* nettool: see nettool.h. Here the modes by name. */
#include "nettool.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const struct {
	const char *name, *arguments;
	mode_fn run;
} modes[] = {
    {"both", "HOST PORT UP DOWN PAUSE_MS", mode_both},
    {"half", "HOST PORT client|server BYTES", mode_half},
    {"rst", "HOST PORT client|server", mode_rst},
    {"sequence", "HOST PORT PORTS COUNT", mode_sequence},
    {"parallel", "HOST PORT COUNT", mode_parallel},
    {"connect", "HOST PORT", mode_connect},
    {"udp-echo", "HOST PORT SIZE...", mode_udp_echo},
    {"udp-flows", "HOST PORT COUNT", mode_udp_flows},
    {"udp-error", "HOST PORT", mode_udp_error},
    {"stream", "HOST PORT up|down SECONDS STREAMS", mode_stream},
    {"rate", "HOST PORT SECONDS CLIENTS", mode_rate},
    {"rr", "HOST PORT tcp|udp COUNT SIZE", mode_rr},
    {"udp-flood", "HOST PORT SECONDS SIZE", mode_udp_flood},
    {"vhost-tap", "[-b BUFFER] [-f FEATURES] SOCKET IFNAME", mode_vhost_tap},
    {"stream-tap", "SOCKET IFNAME", mode_stream_tap},
};
#define MODES (sizeof(modes) / sizeof(modes[0]))

static int usage(void)
{
	fputs("nettool serve PORT PORTS\n", stderr);
	for (size_t i = 0; i < MODES; i++)
		fprintf(stderr, "nettool %s %s\n", modes[i].name, modes[i].arguments);
	return 2;
}

int main(int argc, char **argv)
{
	struct rlimit files;
	int status = 2;

	signal(SIGPIPE, SIG_IGN);
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &files))
			perror("nettool: setrlimit");
	}
	if (argc == 4 && !strcmp(argv[1], "serve"))
		serve((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]));
	for (size_t i = 0; argc > 2 && i < MODES; i++)
		if (!strcmp(argv[1], modes[i].name))
			status = modes[i].run(argc - 2, argv + 2);
	return status == 2 ? usage() : status;
}
