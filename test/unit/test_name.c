/* SPDX-License-Identifier: BSD-3-Clause */
/* Domain names as labels, whole and compressed. */
#include "test/unit/build.h"

#include <errno.h>

#include "wire/name.h"

#define LABEL_63 "123456789012345678901234567890123456789012345678901234567890123"
#define NAME_253                                                                                   \
	LABEL_63 "." LABEL_63 "." LABEL_63                                                         \
		 ".123456789012345678901234567890123456789012345678901234567890a"

static void is_emitted(const char *text, const char *want, size_t want_len)
{
	uint8_t got[NAME_WIRE_MAX + 1];
	size_t len = 0;

	memset(got, 0xee, sizeof(got));
	assert_int_equal(name_emit(got, want_len, text, &len), 0);
	assert_int_equal(len, want_len);
	assert_memory_equal(got, want, len);
	assert_int_equal(got[len], 0xee);
	len = 7; /* one byte less is too little, and nothing is written */
	memset(got, 0xee, sizeof(got));
	assert_int_equal(name_emit(got, want_len - 1, text, &len), -ENOBUFS);
	assert_int_equal(len, 7);
	for (size_t i = 0; i < sizeof(got); i++)
		assert_int_equal(got[i], 0xee);
}

#define EMITTED(text, want) is_emitted(text, want, sizeof(want))

static void good_names(void **state)
{
	uint8_t got[NAME_WIRE_MAX];
	size_t len;

	(void)state;
	EMITTED("example", "\7example");
	EMITTED("example.", "\7example");
	EMITTED("eng.Apple.com", "\3eng\5Apple\3com");
	EMITTED("a.b.c", "\1a\1b\1c");
	EMITTED(LABEL_63 ".x", "\x3f" LABEL_63 "\1x");
	assert_int_equal(strlen(NAME_253), 253);
	assert_int_equal(name_emit(got, sizeof(got), NAME_253, &len), 0);
	assert_int_equal(len, NAME_WIRE_MAX);
	assert_int_equal(name_emit(got, sizeof(got), NAME_253 ".", &len), 0);
	assert_int_equal(len, NAME_WIRE_MAX);
}

static void bad_names(void **state)
{
	static const char *const bad[] = {"",           ".",          "..",
					  ".a",         "a..b",       "a..",
					  ".a.b",       LABEL_63 "4", "x." LABEL_63 "4.y",
					  NAME_253 "b", NAME_253 "b."};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		uint8_t got[300];
		size_t len;

		assert_int_equal(name_emit(got, sizeof(got), bad[i], &len), -EINVAL);
		assert_int_equal(name_emit_compressed(got, 0, sizeof(got), bad[i], &len), -EINVAL);
	}
}

/* Gives the names one after the other, in just the room that they need. */
static void are_compressed(const char *const *names, const char *want, size_t want_len)
{
	uint8_t got[1024];
	size_t at = 0, len;

	memset(got, 0xee, sizeof(got));
	for (; *names; names++) {
		assert_int_equal(name_emit_compressed(got, at, want_len - at, *names, &len), 0);
		at += len;
	}
	assert_int_equal(at, want_len);
	assert_memory_equal(got, want, want_len);
	assert_int_equal(got[want_len], 0xee);
}

#define COMPRESSED(want, ...)                                                                      \
	are_compressed((const char *const[]){__VA_ARGS__, NULL}, want, sizeof(want) - 1)

static void compressed(void **state)
{
	(void)state;
	/* The example of RFC 3397 3. */
	COMPRESSED("\3eng\5apple\3com\0\x9marketing\xc0\4", "eng.apple.com", "marketing.apple.com");
	COMPRESSED("\1a\0\1b\0", "a", "b");
	COMPRESSED("\3foo\7example\0\xc0\0\xc0\4", "foo.example", "foo.example.", "example");
	/* The end of a name that itself ends in a pointer; letters in either case. */
	COMPRESSED("\1a\1b\1c\0\1x\xc0\2\1y\xc0\7\1z\xc0\2", "a.b.c", "x.b.c", "y.X.B.C", "z.b.c");
	/* Behind a name that ends in a pointer. */
	COMPRESSED("\3foo\7example\0\3bar\xc0\4\2zz\1q\0\2yy\xc0\x16", "foo.example", "bar.example",
		   "zz.q", "yy.q");
	/* Alike only in the middle, or a part of a label. */
	COMPRESSED("\4ab\1x\0\2ab\1x\0", "ab\1x", "ab.x");
	COMPRESSED("\1a\2bc\0\1a\1c\0\1a\2bc\1d\0", "a.bc", "a.c", "a.bc.d");
}

static void compressed_without_room(void **state)
{
	uint8_t got[64];
	size_t len, first;

	(void)state;
	assert_int_equal(name_emit_compressed(got, 0, 8, "foo.example", &len), -ENOBUFS);
	assert_int_equal(name_emit_compressed(got, 0, 13, "foo.example", &first), 0);
	memset(got + first, 0xee, sizeof(got) - first);
	assert_int_equal(name_emit_compressed(got, first, 1, "foo.example", &len), -ENOBUFS);
	assert_int_equal(name_emit_compressed(got, first, 5, "bar.example", &len), -ENOBUFS);
	assert_int_equal(got[first], 0xee);
	assert_int_equal(name_emit_compressed(got, first, 6, "bar.example", &len), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(good_names),
	    cmocka_unit_test(bad_names),
	    cmocka_unit_test(compressed),
	    cmocka_unit_test(compressed_without_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
