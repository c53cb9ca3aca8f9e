/* corpus-main.c - runs a fuzzer over its stored corpus, without libFuzzer: every finding stays a
 * regression test. The corpus is tests/fuzz/corpus/X for the program corpus-X (or the folder
 * given). */
#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <string.h>

#include "base/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *dir, const char *name)
{
	_cleanup_(freep) char *data = NULL;
	char path[8192];
	size_t len;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (read_file(path, 16 << 20, &data, &len) < 0)
		return -1;
	(void)LLVMFuzzerTestOneInput((const uint8_t *)data, len);
	/* And cut short at some places: most damage is an end too early. */
	for (size_t i = 0; i < 16; i++)
		(void)LLVMFuzzerTestOneInput((const uint8_t *)data, len * i / 16);
	return 0;
}

int main(int argc, char **argv)
{
	const char *name = strstr(basename(argv[0]), "corpus-");
	char dir[4096];
	const struct dirent *entry;
	unsigned n = 0;
	DIR *d;

	if (argc > 1)
		(void)snprintf(dir, sizeof(dir), "%s", argv[1]);
	else
		(void)snprintf(dir, sizeof(dir), "tests/fuzz/corpus/%s",
			       name ? name + strlen("corpus-") : "");
	d = opendir(dir);
	if (!d) {
		printf("no corpus %s: %s\n", dir, strerror(errno));
		return 1;
	}
	while ((entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		if (run_file(dir, entry->d_name) < 0) {
			printf("cannot read %s/%s\n", dir, entry->d_name);
			return 1;
		}
		n++;
	}
	closedir(d);
	/* Bytes of no meaning at all, always the same. */
	for (uint64_t seed = 1; seed <= 200; seed++) {
		uint8_t noise[512];

		for (size_t i = 0; i < sizeof(noise); i++)
			noise[i] = (uint8_t)hash_u64(seed << 32 | i);
		(void)LLVMFuzzerTestOneInput(noise, (size_t)(hash_u64(seed) % sizeof(noise)));
	}
	if (!n) {
		printf("the corpus %s is empty\n", dir);
		return 1;
	}
	printf("ok 1 - corpus of %u files\n", n);
	return 0;
}
