/* SPDX-License-Identifier: BSD-3-Clause */
/* What each option does with its argument. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "passt/options.h"

/* An IP packet of 65535 bytes less the Ethernet header: what fits the length field of every link.
 */
#define MTU_MAX       65521
#define LOG_PAGES_MIN 5
#define LOG_PAGE_MIN  8192
#define DNS_LABEL_MAX 63 /* RFC 1035 2.3.4 */

/* One line, whatever was in the arguments. */
static int finish_line(char *error)
{
	for (; *error; error++) {
		if ((unsigned char)*error < ' ' || *error == 0x7f)
			*error = '?';
	}
	return -EINVAL;
}

int option_error(char error[CONFIG_ERROR_MAX], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(error, CONFIG_ERROR_MAX, fmt, ap);
	va_end(ap);
	return finish_line(error);
}

int option_fail(struct option_parse *p, const char *fmt, ...)
{
	int n = snprintf(p->error, CONFIG_ERROR_MAX, "%s%s%.300s: ", p->used, p->value ? " " : "",
			 p->value ? p->value : "");
	va_list ap;

	if (n >= 0 && n < CONFIG_ERROR_MAX) {
		va_start(ap, fmt);
		vsnprintf(p->error + n, (size_t)(CONFIG_ERROR_MAX - n), fmt, ap);
		va_end(ap);
	}
	return finish_line(p->error);
}

int option_number(const char *text, int base, unsigned long long max, unsigned long long *out)
{
	unsigned long long v;
	char *end;

	if (!isdigit((unsigned char)text[0])) /* strtoull() takes blanks and a minus sign */
		return -EINVAL;
	errno = 0;
	v = strtoull(text, &end, base);
	if (errno || *end || v > max)
		return -EINVAL;
	*out = v;
	return 0;
}

static void *member_of(struct option_parse *p, const struct option_row *row)
{
	return (char *)p->cfg + row->member;
}

static struct ip_addr *address_of(struct option_parse *p, const struct option_row *row,
				  enum ip_family f)
{
	return (struct ip_addr *)(void *)((char *)&p->cfg->family[f] + row->member);
}

int option_flag(struct option_parse *p, const struct option_row *row)
{
	*(bool *)member_of(p, row) = row->param;
	return 0;
}

/* A string of 1 to param bytes. */
int option_path(struct option_parse *p, const struct option_row *row)
{
	size_t len = strlen(p->value);

	if (!len)
		return option_fail(p, "the path is empty");
	if (len > row->param)
		return option_fail(p, "the path is longer than %u bytes", row->param);
	*(const char **)member_of(p, row) = p->value;
	return 0;
}

static int fail_unless_word(struct option_parse *p, size_t max)
{
	size_t len = strlen(p->value);

	if (!len)
		return option_fail(p, "the name is empty");
	if (len > max)
		return option_fail(p, "the name is longer than %zu bytes", max);
	for (size_t i = 0; i < len; i++) {
		if (!isgraph((unsigned char)p->value[i]) && (unsigned char)p->value[i] < 0x80)
			return option_fail(p, "not a name");
	}
	return 0;
}

int option_name(struct option_parse *p, const struct option_row *row)
{
	int r = fail_unless_word(p, row->param);

	if (!r)
		*(const char **)member_of(p, row) = p->value;
	return r;
}

/* What the kernel takes as the name of a device (dev_valid_name): no slash, colon or blank, not .
 * or ..; a percent sign would make a pattern of the name of a new one. */
static int fail_unless_ifname(struct option_parse *p, bool is_new)
{
	int r = fail_unless_word(p, IF_NAMESIZE - 1);

	if (r)
		return r;
	if (strpbrk(p->value, is_new ? "/:%" : "/:") || !strcmp(p->value, ".") ||
	    !strcmp(p->value, ".."))
		return option_fail(p, "not a name of an interface");
	return 0;
}

int option_ifname(struct option_parse *p, const struct option_row *row)
{
	int r = fail_unless_ifname(p, row->param);

	if (!r)
		*(const char **)member_of(p, row) = p->value;
	return r;
}

int option_outbound_if(struct option_parse *p, const struct option_row *row)
{
	int r = fail_unless_ifname(p, false);

	if (!r)
		p->cfg->family[row->param].outbound_if = p->value;
	return r;
}

/* text: the address alone, where the argument has more. */
static int parse_address(struct option_parse *p, const char *text, unsigned refuse,
			 struct ip_addr *out)
{
	static const uint8_t zeros[12] = {0};
	struct ip_addr a;
	bool v4;

	if (ip_parse(text, &a) < 0)
		return option_fail(p, "not an IPv4 or IPv6 address");
	v4 = ip_is_v4(&a);
	if ((refuse & REFUSE_UNSPECIFIED) && ip_is_unspecified(&a))
		return option_fail(p, "an unspecified address is of no use here");
	if ((refuse & (v4 ? REFUSE_LOOPBACK_V4 : REFUSE_LOOPBACK_V6)) && ip_is_loopback(&a))
		return option_fail(p, "a loopback address is of no use here");
	if ((refuse & REFUSE_GROUP) && (ip_is_multicast(&a) || ip_is_broadcast(&a)))
		return option_fail(p, "a multicast or broadcast address is of no use here");
	if ((refuse & REFUSE_MAPPED) &&
	    (v4 ? strchr(text, ':') != NULL : !memcmp(a.b, zeros, sizeof(zeros))))
		return option_fail(p, "an IPv4 address in IPv6 form is of no use here");
	*out = a;
	return 0;
}

static const char *family_name(enum ip_family f)
{
	return f == IP_V4 ? "IPv4" : "IPv6";
}

static int fail_given(struct option_parse *p, enum ip_family f)
{
	return option_fail(p, "an %s address was given before", family_name(f));
}

int option_address(struct option_parse *p, const struct option_row *row)
{
	struct ip_addr a;
	int r = parse_address(p, p->value, row->param, &a);

	if (!r)
		*address_of(p, row, ip_family(&a)) = a;
	return r;
}

int option_address_once(struct option_parse *p, const struct option_row *row)
{
	struct ip_addr a, *slot;
	int r = parse_address(p, p->value, row->param, &a);

	if (r)
		return r;
	slot = address_of(p, row, ip_family(&a));
	if (!ip_is_unspecified(slot))
		return fail_given(p, ip_family(&a));
	*slot = a;
	return 0;
}

/* --map-host-loopback and --map-guest-addr; none takes back what was given for both families. */
int option_map(struct option_parse *p, const struct option_row *row)
{
	const struct option_row once = {
	    .member = row->member, .param = REFUSE_UNSPECIFIED | REFUSE_LOOPBACK | REFUSE_GROUP};
	bool loopback = row->member == offsetof(struct config_family, map_host_loopback);

	if (strcmp(p->value, "none")) {
		int r = option_address_once(p, &once);

		if (!r && loopback)
			p->cfg->map_host_loopback_none = false;
		return r;
	}
	for (int f = 0; f < IP_FAMILIES; f++)
		*address_of(p, row, (enum ip_family)f) = ip_any[f];
	if (loopback) {
		p->cfg->map_host_loopback_none = true;
		p->cfg->map_gw = false;
	}
	return 0;
}

/* The prefix of an IPv6 address is checked and then left: 64 is what address configuration needs
 * (RFC 4862 5.5.3). */
int option_guest_address(struct option_parse *p, const struct option_row *row)
{
	const char *slash = strrchr(p->value, '/');
	size_t len = slash ? (size_t)(slash - p->value) : strlen(p->value);
	unsigned long long prefix = 0;
	struct config_family *cf;
	char text[IP_TEXT_MAX + 2];
	struct ip_addr a;
	int r;

	(void)row;
	if (len >= sizeof(text))
		return option_fail(p, "not an IPv4 or IPv6 address");
	memcpy(text, p->value, len);
	text[len] = '\0';
	r = parse_address(p, text, REFUSE_UNSPECIFIED | REFUSE_LOOPBACK | REFUSE_GROUP, &a);
	if (r)
		return r;
	if (slash && option_number(slash + 1, 10, ip_is_v4(&a) ? 32 : 128, &prefix) < 0)
		return option_fail(p, "the prefix length is not a number from 0 to %d",
				   ip_is_v4(&a) ? 32 : 128);
	cf = &p->cfg->family[ip_family(&a)];
	if (cf->address_set)
		return fail_given(p, ip_family(&a));
	cf->address = a;
	cf->address_set = true;
	if (slash && ip_is_v4(&a)) {
		cf->prefix_len = (unsigned)prefix;
		cf->prefix_set = p->address_prefix = true;
	}
	return 0;
}

/* Number of leading ones of a mask, or -EINVAL if ones follow a zero. */
static int mask_length(const struct ip_addr *mask)
{
	const uint8_t *b = ip_bytes(mask);
	uint32_t m = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
	int len = 0;

	for (; m & 0x80000000; m <<= 1)
		len++;
	return m ? -EINVAL : len;
}

int option_netmask(struct option_parse *p, const struct option_row *row)
{
	struct config_family *cf = &p->cfg->family[IP_V4];
	unsigned long long bits;
	struct ip_addr mask;

	(void)row;
	if (strchr(p->value, '.')) {
		int len = ip_parse(p->value, &mask) < 0 || !ip_is_v4(&mask) ? -EINVAL
									    : mask_length(&mask);

		if (len < 0)
			return option_fail(p, "not an IPv4 mask");
		bits = (unsigned)len;
	} else if (option_number(p->value, 0, 32, &bits) < 0) {
		return option_fail(p, "neither a dotted IPv4 mask nor a number from 0 to 32");
	}
	cf->prefix_len = (unsigned)bits;
	cf->prefix_set = p->netmask_given = true;
	return 0;
}

int option_gateway(struct option_parse *p, const struct option_row *row)
{
	struct config_family *cf;
	struct ip_addr a;
	int r;

	(void)row;
	r = parse_address(p, p->value, REFUSE_UNSPECIFIED | REFUSE_LOOPBACK | REFUSE_GROUP, &a);
	if (r)
		return r;
	cf = &p->cfg->family[ip_family(&a)];
	if (cf->gateway_set)
		return fail_given(p, ip_family(&a));
	cf->gateway = a;
	cf->gateway_set = true;
	return 0;
}

static void dns_clear(struct config *cfg)
{
	for (int f = 0; f < IP_FAMILIES; f++) {
		struct config_family *cf = &cfg->family[f];

		cf->dns_count = 0;
		cf->dns_forward = cf->dns_host = ip_any[f];
	}
	cfg->dns_off = true;
}

int option_dns(struct option_parse *p, const struct option_row *row)
{
	struct config_family *cf;
	struct ip_addr a;
	int r;

	(void)row;
	if (!strcmp(p->value, "none")) {
		dns_clear(p->cfg);
		return 0;
	}
	r = parse_address(p, p->value, REFUSE_UNSPECIFIED | REFUSE_GROUP, &a);
	if (r)
		return r;
	cf = &p->cfg->family[ip_family(&a)];
	if (cf->dns_count < RESOLVER_DNS_MAX) /* resolv.conf(5): further ones are ignored */
		cf->dns[cf->dns_count++] = a;
	p->cfg->dns_off = false;
	return 0;
}

/* A name that can be written in DNS wire format: labels of 1 to 63 bytes, a dot at the end allowed.
 */
static bool is_domain(const char *text, size_t len)
{
	size_t label = 0;

	if (!len || len >= RESOLVER_NAME_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c != '.' && (c <= ' ' || c == 0x7f))
			return false;
		if (c == '.' && !label)
			return false;
		label = c == '.' ? 0 : label + 1;
		if (label > DNS_LABEL_MAX)
			return false;
	}
	return true;
}

int option_search(struct option_parse *p, const struct option_row *row)
{
	struct config *cfg = p->cfg;
	const char *word = p->value;

	(void)row;
	cfg->search_given = true;
	cfg->search_off = !strcmp(p->value, "none");
	if (cfg->search_off) {
		cfg->search_count = 0;
		return 0;
	}
	if (!word[strspn(word, " ")])
		return option_fail(p, "the list is empty");
	for (word += strspn(word, " "); *word; word += strspn(word, " ")) {
		size_t len = strcspn(word, " ");

		if (!is_domain(word, len))
			return option_fail(p, "%.*s is not a domain name",
					   (int)(len < 64 ? len : 64), word);
		if (cfg->search_count == RESOLVER_SEARCH_MAX)
			return option_fail(p, "more than %d search domains", RESOLVER_SEARCH_MAX);
		memcpy(cfg->search[cfg->search_count], word, len);
		cfg->search[cfg->search_count++][len] = '\0';
		word += len;
	}
	return 0;
}

int option_fqdn(struct option_parse *p, const struct option_row *row)
{
	(void)row;
	if (!is_domain(p->value, strlen(p->value)))
		return option_fail(p, "not a domain name");
	p->cfg->fqdn = p->value;
	return 0;
}

/* Bit 0 of the first byte marks a group (IEEE 802.3 3.2.3), which no frame comes from. */
static int parse_mac(struct option_parse *p, struct mac_addr *out)
{
	static const struct mac_addr zero = {{0}};
	struct mac_addr mac;

	if (mac_parse(p->value, &mac) < 0)
		return option_fail(p, "not a MAC address: six pairs of hexadecimal digits with "
				      "colons between them");
	if ((mac.b[0] & 1) || mac_equal(&mac, &zero))
		return option_fail(p, "not the MAC address of an interface");
	*out = mac;
	return 0;
}

int option_our_mac(struct option_parse *p, const struct option_row *row)
{
	(void)row;
	return parse_mac(p, &p->cfg->our_mac);
}

int option_ns_mac(struct option_parse *p, const struct option_row *row)
{
	int r = parse_mac(p, &p->cfg->ns_mac);

	(void)row;
	if (!r)
		p->cfg->ns_mac_set = true;
	return r;
}

int option_mtu(struct option_parse *p, const struct option_row *row)
{
	unsigned long long v;

	(void)row;
	if (option_number(p->value, 0, MTU_MAX, &v) < 0)
		return option_fail(p, "not a number from 0 to %d", MTU_MAX);
	p->cfg->mtu = (unsigned)v;
	return 0;
}

int option_log_size(struct option_parse *p, const struct option_row *row)
{
	long page = sysconf(_SC_PAGESIZE);
	unsigned long long v, min = LOG_PAGES_MIN * (page > LOG_PAGE_MIN ? page : LOG_PAGE_MIN);

	(void)row;
	if (option_number(p->value, 0, INT64_MAX / 4, &v) < 0 || v < min)
		return option_fail(p, "not a number of bytes, %llu at least", min);
	p->cfg->log_size = (size_t)v;
	return 0;
}

/* --debug after --trace takes nothing away. */
int option_level(struct option_parse *p, const struct option_row *row)
{
	enum log_level level = (enum log_level)row->param;

	if (level == LOG_LEVEL_DEBUG && p->cfg->log_level > level)
		return 0;
	p->cfg->log_level = level;
	return 0;
}

int option_only_family(struct option_parse *p, const struct option_row *row)
{
	for (unsigned f = 0; f < IP_FAMILIES; f++)
		p->cfg->family[f].on = f == row->param;
	return 0;
}

int option_userns(struct option_parse *p, const struct option_row *row)
{
	const struct option_row path = {.member = offsetof(struct config, userns),
					.param = PATH_MAX - 1};
	int r = option_path(p, &path);

	(void)row;
	if (!r)
		p->cfg->netns_only = false;
	return r;
}

int option_netns_only(struct option_parse *p, const struct option_row *row)
{
	(void)row;
	p->cfg->netns_only = true;
	p->cfg->userns = NULL;
	return 0;
}

int option_action(struct option_parse *p, const struct option_row *row)
{
	p->cfg->action = (enum config_action)row->param;
	return 0;
}

int option_deprecated(struct option_parse *p, const struct option_row *row)
{
	struct config *cfg = p->cfg;

	for (unsigned i = 0; i < cfg->deprecated_count; i++) {
		if (cfg->deprecated[i] == row->name)
			return 0;
	}
	if (cfg->deprecated_count < CONFIG_DEPRECATED_MAX)
		cfg->deprecated[cfg->deprecated_count++] = row->name;
	return 0;
}

int option_no_copy(struct option_parse *p, const struct option_row *row)
{
	*(bool *)member_of(p, row) = false;
	p->no_copy = row->name;
	return option_deprecated(p, row);
}

/* Accepted, checked as little as what does nothing needs. */
int option_no_effect(struct option_parse *p, const struct option_row *row)
{
	(void)p;
	(void)row;
	return 0;
}

/* Not one of the three standard ones, which are the terminal's, as a rule. */
int option_fd(struct option_parse *p, const struct option_row *row)
{
	unsigned long long fd;

	(void)row;
	if (option_number(p->value, 0, INT_MAX, &fd) < 0 || fd < 3)
		return option_fail(p, "not a number from 3 to %d", INT_MAX);
	p->cfg->fd = (int)fd;
	return 0;
}

int option_vhost_user(struct option_parse *p, const struct option_row *row)
{
	(void)row;
	p->cfg->vhost_user = true;
	p->cfg->program = PROGRAM_PASST;
	return 0;
}

int option_migrate(struct option_parse *p, const struct option_row *row)
{
	p->vhost_only = row->name;
	return option_deprecated(p, row);
}

int option_repair_path(struct option_parse *p, const struct option_row *row)
{
	if (strcmp(p->value, "none") != 0)
		p->vhost_only = row->name;
	return 0;
}

#define STATS_MOST 86400

int option_stats(struct option_parse *p, const struct option_row *row)
{
	unsigned long long seconds;

	(void)row;
	if (option_number(p->value, 0, STATS_MOST, &seconds) < 0 || !seconds)
		return option_fail(p, "not a number of seconds from 1 to %d", STATS_MOST);
	p->cfg->stats_seconds = (unsigned)seconds;
	return 0;
}
