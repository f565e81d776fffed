/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives files to a fuzz target, without the fuzzer: replay_NAME FILE... Each input ends flush with
 * its allocation, so that the address sanitizer sees any read past it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
	static uint8_t buffer[1 << 20];
	FILE *f = fopen(path, "rb");
	uint8_t *exact;
	size_t n;

	if (!f) {
		perror(path);
		return 1;
	}
	n = fread(buffer, 1, sizeof(buffer), f);
	fclose(f);
	exact = malloc(n ? n : 1);
	if (!exact)
		return 1;
	for (size_t i = 0; i < n; i++)
		exact[i] = buffer[i];
	LLVMFuzzerTestOneInput(exact, n);
	free(exact);
	return 0;
}

int main(int argc, char **argv)
{
	int failed = 0;

	for (int i = 1; i < argc; i++)
		failed |= replay(argv[i]);
	printf("%d inputs\n", argc - 1);
	return failed;
}
