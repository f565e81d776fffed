/* SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fd.h"
#include "host/host.h"

#define RESOLVER_FILE_MAX (64 << 10)

/* A stretch of the text; words are cut from its front. */
struct span {
	const char *pos, *end;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* The next word of the line; empty at its end, or where a comment starts. */
static struct span next_word(struct span *line)
{
	struct span w;

	while (line->pos < line->end && is_blank(*line->pos))
		line->pos++;
	w.pos = line->pos;
	if (line->pos < line->end && (*line->pos == '#' || *line->pos == ';'))
		line->pos = line->end = w.pos;
	while (line->pos < line->end && !is_blank(*line->pos))
		line->pos++;
	w.end = line->pos;
	return w;
}

static bool word_is(struct span w, const char *text)
{
	size_t len = strlen(text);

	return (size_t)(w.end - w.pos) == len && !memcmp(w.pos, text, len);
}

static void add_server(struct resolver *r, struct span w)
{
	char text[IP_TEXT_MAX + 2] = ""; /* brackets are understood, too */
	const char *zone = memchr(w.pos, '%', (size_t)(w.end - w.pos));
	size_t len = (size_t)((zone ? zone : w.end) - w.pos);
	enum ip_family family;
	struct ip_addr a;

	if (!len || len >= sizeof(text) || memchr(w.pos, 0, len))
		return;
	memcpy(text, w.pos, len);
	if (ip_parse(text, &a) || ip_is_multicast(&a) || ip_is_broadcast(&a))
		return;
	family = ip_family(&a);
	/* The system's own resolver takes the unspecified address for this host. */
	if (ip_is_unspecified(&a))
		a = ip_loopback[family];
	if (r->dns_count[family] < RESOLVER_DNS_MAX)
		r->dns[family][r->dns_count[family]++] = a;
}

/* Without the dot of the root, as far as it is a name at all. */
static void add_search(struct resolver *r, struct span w)
{
	size_t len;

	if (w.end > w.pos && w.end[-1] == '.')
		w.end--;
	len = (size_t)(w.end - w.pos);
	if (!len || len >= RESOLVER_NAME_MAX || r->search_count == RESOLVER_SEARCH_MAX)
		return;
	for (size_t i = 0; i < len; i++) {
		if (!isgraph((unsigned char)w.pos[i]))
			return;
	}
	memcpy(r->search[r->search_count], w.pos, len);
	r->search[r->search_count][len] = 0;
	r->search_count++;
}

static void parse_line(struct resolver *r, struct span line)
{
	struct span keyword = next_word(&line), w = next_word(&line);
	bool domain = word_is(keyword, "domain");

	if (w.pos == w.end)
		return;
	if (word_is(keyword, "nameserver"))
		add_server(r, w);
	if (!domain && !word_is(keyword, "search"))
		return;
	/* resolv.conf(5): search and domain exclude each other, the last one holds. */
	r->search_count = 0;
	do {
		add_search(r, w);
		w = next_word(&line);
	} while (!domain && w.pos < w.end);
}

void resolver_parse(const char *text, size_t len, struct resolver *out)
{
	const char *end = text + len;

	memset(out, 0, sizeof(*out));
	while (text < end) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		struct span line = {.pos = text, .end = nl ? nl : end};

		parse_line(out, line);
		text = nl ? nl + 1 : end;
	}
}

int resolver_read(const char *path, struct resolver *out)
{
	/* Not to be held up by a FIFO nobody writes to. */
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	size_t len = 0;
	ssize_t n;
	char *buf;
	int err = 0;

	if (fd < 0)
		return -errno;
	buf = malloc(RESOLVER_FILE_MAX);
	if (!buf)
		return -ENOMEM;
	do {
		n = read(fd, buf + len, RESOLVER_FILE_MAX - len);
		if (n > 0)
			len += (size_t)n;
	} while ((n > 0 && len < RESOLVER_FILE_MAX) || (n < 0 && errno == EINTR));
	if (n < 0)
		err = -errno;
	else
		resolver_parse(buf, len, out);
	free(buf);
	return err;
}
