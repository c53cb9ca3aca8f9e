/* read-snapshot.c - prints `export --to bin` (as standard input) by its head alone: docs/snapshot-format.md. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static long get(const char *at, long size, int is_signed)
{
	unsigned long n = 0;
	memcpy(&n, at, (size_t)size);
	return is_signed ? (long)(n << (64 - 8 * size)) >> (64 - 8 * size) : (long)n;
}

int main(void)
{
	const long size = fseek(stdin, 0, SEEK_END) ? 0 : ftell(stdin);
	const char *file = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, 0, 0), *r, *f;
	if (size < 504 || file == MAP_FAILED || memcmp(file, "PWSNAP1\0\4\3\2\1", 12))
		return 1;
	for (const char *s = file + 24; s < file + 88; s += 32)
		for (long i = 0, bytes = get(s + 4, 4, 0); i < get(s + 8, 8, 0); i++) {
			r = file + get(s + 16, 8, 0) + i * bytes;
			f = file + 88 + 32 * get(s + 28, 4, 0);
			if (r + bytes > file + size)
				return 1;
			printf("%s", get(s, 4, 0) == 1 ? "\nperf" : "\ntask");
			for (const char *end = f + 32 * get(s + 24, 4, 0); f < end; f += 32)
				f[24] == 1 ? printf(f[25] ? " %s=%ld" : " %s=%lu", f,
						    get(r + get(f + 26, 2, 0), get(f + 28, 2, 0),
							f[25]))
					   : printf(" %s=%s", f, r + get(f + 26, 2, 0));
		}
	return 0;
}
