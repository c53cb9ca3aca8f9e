/* fuzz-demangle.c - any bytes as a name: the result fits, ends in NUL, and comes soon. */
#include <string.h>

#include "symbols/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t sizes[] = {1, 2, 16, 100, 2048};
	char *name = malloc(size + 1), *out;

	if (!name)
		abort();
	memcpy(name, data, size);
	name[size] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		out = malloc(sizes[i]);
		if (!out)
			abort();
		uw_demangle(name, out, sizes[i]);
		if (strnlen(out, sizes[i]) == sizes[i])
			abort();
		free(out);
	}
	free(name);
	return 0;
}
