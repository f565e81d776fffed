/* SPDX-License-Identifier: BSD-3-Clause */
/* completion bash|zsh|fish: writes the completion of that shell for passt and pasta, from the
 * option rows that the program itself has. */
#include <stdio.h>
#include <string.h>

#include "passt/options.h"

static const char *const programs[] = {[PROGRAM_PASST] = "passt", [PROGRAM_PASTA] = "pasta"};

static bool has_row(int program, const struct option_row *row)
{
	return row->where == WHERE_BOTH ||
	       (row->where == WHERE_PASTA) == (program == PROGRAM_PASTA);
}

static bool takes_file(const struct option_row *row)
{
	return row->arg && (strstr(row->arg, "PATH") || !strcmp(row->arg, "FILE"));
}

static bool takes_interface(const struct option_row *row)
{
	return (row->handle == option_ifname && !row->param) || row->handle == option_outbound_if;
}

/* ---- bash */

static void bash_forms(int program, bool (*wanted)(const struct option_row *), const char *between)
{
	const char *sep = "";

	for (unsigned i = 0; i < option_count; i++) {
		const struct option_row *row = &option_rows[i];

		if (!has_row(program, row) || !wanted(row))
			continue;
		printf("%s--%s", sep, row->name);
		sep = between;
		if (row->letter)
			printf("%s-%c", sep, row->letter);
	}
}

static bool any(const struct option_row *row)
{
	(void)row;
	return true;
}

static bool takes_argument(const struct option_row *row)
{
	return row->arg;
}

static void bash_program(int program)
{
	const char *name = programs[program];

	printf("_%s()\n{\n"
	       "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} i\n"
	       "\tCOMPREPLY=()\n"
	       "\tcase $prev in\n\t",
	       name);
	bash_forms(program, takes_interface, "|");
	printf(")\n\t\tCOMPREPLY=($(compgen -W \"$(cd /sys/class/net && echo *)\" -- \"$cur\"))\n"
	       "\t\treturn ;;\n\t");
	bash_forms(program, takes_file, "|");
	printf(")\n\t\tcompopt -o filenames\n"
	       "\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n\t\treturn ;;\n\t");
	bash_forms(program, takes_argument, "|");
	printf(")\n\t\treturn ;;\n\tesac\n");
	if (program == PROGRAM_PASTA) {
		/* The command begins at the first word that is neither an option nor the argument
		 * of one. */
		printf("\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
		       "\t\tcase ${COMP_WORDS[i]} in\n"
		       "\t\t--) ((i++)); break ;;\n\t\t");
		bash_forms(program, takes_argument, "|");
		printf(") ((i++)) ;;\n"
		       "\t\t-*) ;;\n"
		       "\t\t*) break ;;\n"
		       "\t\tesac\n"
		       "\tdone\n"
		       "\tif ((i < COMP_CWORD)); then\n"
		       "\t\tcompopt -o filenames\n"
		       "\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n"
		       "\t\treturn\n"
		       "\tfi\n"
		       "\tif ((i == COMP_CWORD)) && [[ $cur != -* ]]; then\n"
		       "\t\tCOMPREPLY=($(compgen -c -- \"$cur\"))\n"
		       "\t\treturn\n"
		       "\tfi\n");
	}
	printf("\tCOMPREPLY=($(compgen -W '");
	bash_forms(program, any, " ");
	printf("' -- \"$cur\"))\n}\ncomplete -F _%s %s\n\n", name, name);
}

static void bash(void)
{
	printf("# bash completion for passt and pasta\n\n");
	for (int p = 0; p < 2; p++)
		bash_program(p);
}

/* ---- zsh and fish */

/* The help's first line, as the inside of a quoted word. */
static void print_help_line(const struct option_row *row, const char *escaped)
{
	for (const char *c = row->help; *c && *c != '\n'; c++) {
		if (*c == '\'') {
			printf("'\\''");
			continue;
		}
		if (strchr(escaped, *c))
			putchar('\\');
		putchar(*c);
	}
}

static void zsh_row(const struct option_row *row)
{
	if (row->letter)
		printf("\t\t'*'{-%c,--%s}'[", row->letter, row->name);
	else
		printf("\t\t'*--%s[", row->name);
	print_help_line(row, "[]:");
	printf("]");
	if (row->arg) {
		printf(":%s:", row->arg);
		if (takes_interface(row))
			printf("_net_interfaces");
		else if (takes_file(row))
			printf("_files");
		else
			printf(" ");
	}
	printf("' \\\n");
}

static void zsh(void)
{
	printf("#compdef passt pasta\n\ncase $service in\n");
	for (int p = 0; p < 2; p++) {
		printf("%s)\n\t_arguments -S -s \\\n", programs[p]);
		for (unsigned i = 0; i < option_count; i++) {
			if (has_row(p, &option_rows[i]))
				zsh_row(&option_rows[i]);
		}
		if (p == PROGRAM_PASTA)
			printf("\t\t'(-)1:command: _command_names -e' '*::argument: _normal'\n");
		else
			printf("\t\t&& return 0\n");
		printf("\t;;\n");
	}
	printf("esac\n");
}

static void fish(void)
{
	printf("# fish completion for passt and pasta\n\n");
	for (int p = 0; p < 2; p++) {
		printf("complete -c %s -f\n", programs[p]);
		for (unsigned i = 0; i < option_count; i++) {
			const struct option_row *row = &option_rows[i];

			if (!has_row(p, row))
				continue;
			printf("complete -c %s -l %s", programs[p], row->name);
			if (row->letter)
				printf(" -s %c", row->letter);
			if (takes_interface(row))
				printf(" -x -a '(path basename /sys/class/net/*)'");
			else if (takes_file(row))
				printf(" -r -F");
			else if (row->arg)
				printf(" -x");
			printf(" -d '");
			print_help_line(row, "");
			printf("'\n");
		}
		if (p == PROGRAM_PASTA)
			printf("complete -c pasta -n __fish_is_first_token -a "
			       "'(__fish_complete_command)'\n");
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*write)(void);
	} shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

	for (size_t i = 0; argc == 2 && i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (!strcmp(argv[1], shells[i].name)) {
			shells[i].write();
			return fflush(stdout) ? 1 : 0;
		}
	}
	fputs("completion bash|zsh|fish\n", stderr);
	return 1;
}
