/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line: input is the arguments, argv[0] included, each ended by a newline or NUL. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "passt/config.h"

#define ARGS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What holds for every outcome; abort() is how a fuzz target reports. */
static void check(int r, const struct config *cfg, const char *error, char **argv)
{
	if (r) {
		if (!error[0] || strlen(error) >= CONFIG_ERROR_MAX || strpbrk(error, "\n\r\x1b"))
			abort();
		return;
	}
	if (error[0])
		abort();
	if (cfg->action != ACTION_RUN)
		return;
	if (cfg->mtu > 65521 || cfg->family[IP_V4].prefix_len > 32 || cfg->target_pid < 0 ||
	    cfg->search_count > RESOLVER_SEARCH_MAX ||
	    cfg->family[IP_V6].dns_count > RESOLVER_DNS_MAX)
		abort();
	if (cfg->ports[FORWARD_HOST].count > RULES_MAX || cfg->ports[FORWARD_NS].count > RULES_MAX)
		abort();
	if (cfg->command && (cfg->command <= argv || !cfg->command[0]))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *argv[ARGS_MAX + 1], error[CONFIG_ERROR_MAX];
	char *text = malloc(size + 1), *copy = malloc(size + 1);
	struct config_input in = {.argv = argv, .ephemeral_first = 32768, .ephemeral_last = 60999};
	struct config cfg;
	bool usage;
	int argc = 0;
	size_t at = 0;

	if (!text || !copy)
		abort();
	for (size_t i = 0; i < size; i++)
		text[i] = data[i] == '\n' ? '\0' : (char)data[i];
	text[size] = '\0';
	memcpy(copy, text, size + 1);
	while (at < size && argc < ARGS_MAX) {
		argv[argc++] = text + at;
		at += strlen(text + at) + 1;
	}
	argv[argc] = NULL;
	in.argc = argc;
	check(config_parse(&in, &cfg, error, &usage), &cfg, error, argv);
	if (memcmp(copy, text, size + 1) != 0)
		abort();
	free(copy);
	free(text);
	return 0;
}
