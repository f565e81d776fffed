/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "passt/options.h"

#define HELP_COLUMN 30 /* where the words start */

static const char *program_name(const struct config *cfg)
{
	return cfg->program == PROGRAM_PASTA ? "pasta" : "passt";
}

static void print_forms(const struct config *cfg, const char *argv0, FILE *f)
{
	if (cfg->program == PROGRAM_PASTA)
		fprintf(f,
			"Usage: %s [OPTION]... [--] [COMMAND [ARG]...]\n"
			"       %s [OPTION]... PID\n"
			"       %s [OPTION]... --netns PATH|NAME\n",
			argv0, argv0, argv0);
	else
		fprintf(f, "Usage: %s [OPTION]...\n", argv0);
}

void config_print_usage(const struct config *cfg, const char *argv0, FILE *f)
{
	print_forms(cfg, argv0, f);
	fprintf(f, "%s --help lists the options.\n", argv0);
}

/* One option: its forms, then the lines of help in their column, below if the forms are too long.
 */
static void print_row(const struct option_row *row, FILE *f)
{
	const char *line = row->help;
	int n = row->letter ? fprintf(f, "  -%c, --%s", row->letter, row->name)
			    : fprintf(f, "  --%s", row->name);

	if (row->arg)
		n += fprintf(f, " %s", row->arg);
	if (n >= HELP_COLUMN - 1) {
		fputc('\n', f);
		n = 0;
	}
	while (*line) {
		size_t len = strcspn(line, "\n");

		fprintf(f, "%*s%.*s\n", HELP_COLUMN - n, "", (int)len, line);
		line += len + (line[len] == '\n');
		n = 0;
	}
}

void config_print_help(const struct config *cfg, const char *argv0, FILE *f)
{
	print_forms(cfg, argv0, f);
	if (cfg->program == PROGRAM_PASTA)
		fputs(
		    "\n"
		    "Gives a network namespace full network access: that of COMMAND (or of a "
		    "shell), "
		    "which is\nmade, or that of a process or path, which is joined.\n\nOptions:\n",
		    f);
	else
		fputs("\nGives a virtual machine full network access.\n\nOptions:\n", f);
	for (unsigned i = 0; i < option_count; i++) {
		const struct option_row *row = &option_rows[i];

		if (row->where == WHERE_BOTH ||
		    (row->where == WHERE_PASTA) == (cfg->program == PROGRAM_PASTA))
			print_row(row, f);
	}
}

void config_print_version(const struct config *cfg, FILE *f)
{
	fprintf(f,
		"%s %s\n"
		"An independent implementation of passt and pasta: user-mode networking\n"
		"for virtual machines and network namespaces.\n"
		"Licence: BSD-3-Clause, see the file LICENSE.\n"
		"This is free software; you may change and redistribute it.\n"
		"There is no warranty, to the extent permitted by law.\n\n",
		program_name(cfg), VERSION);
}

void config_print_capabilities(FILE *f)
{
	fputs("{\n  \"type\": \"net\"\n}\n", f);
}
