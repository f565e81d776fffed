/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/counters.h"

#define DROP_TEXT(name, text) [DROP_##name] = text,

const char *drop_reason_text(enum drop_reason why)
{
	static const char *const texts[DROP_COUNT] = {DROP_REASONS(DROP_TEXT)};

	return texts[why];
}
