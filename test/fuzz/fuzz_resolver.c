/* SPDX-License-Identifier: BSD-3-Clause */
/* resolv.conf of any content: whatever comes out is within its bounds and in normal form. */
#include <stdlib.h>

#include "host/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct resolver r;

	resolver_parse((const char *)data, size, &r);
	if (r.search_count > RESOLVER_SEARCH_MAX)
		abort();
	for (unsigned i = 0; i < r.search_count; i++) {
		if (!r.search[i][0] || strnlen(r.search[i], RESOLVER_NAME_MAX) == RESOLVER_NAME_MAX)
			abort();
	}
	for (int f = 0; f < IP_FAMILIES; f++) {
		if (r.dns_count[f] > RESOLVER_DNS_MAX)
			abort();
		for (unsigned i = 0; i < r.dns_count[f]; i++) {
			if ((int)ip_family(&r.dns[f][i]) != f || ip_is_unspecified(&r.dns[f][i]))
				abort();
		}
	}
	return 0;
}
