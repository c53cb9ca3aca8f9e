/* read-snapshot.c - prints `export --to bin` by its head alone: docs/snapshot-format.md. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct field {
	char name[24];
	uint8_t format, is_signed;
	uint16_t offset, size, zero;
};
struct section {
	uint32_t kind, record_size;
	uint64_t n_records, offset;
	uint32_t n_fields, first_field;
};
struct head {
	char magic[8];
	uint32_t byte_order, page_size, n_sections, n_fields;
	struct section sections[2];
	struct field fields[13];
};

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(struct head))
		return 1;
	const char *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	const struct head *h = (const void *)file;
	if (file == MAP_FAILED || memcmp(h->magic, "PWSNAP1", 8) || h->byte_order != 0x01020304)
		return 1;
	for (const struct section *s = h->sections; s < h->sections + 2; s++)
		for (uint64_t i = 0; i < s->n_records; i++) {
			const char *record = file + s->offset + i * s->record_size;
			if (record + s->record_size > file + st.st_size)
				return 1;
			printf("%s", s->kind == 1 ? "perf" : "task");
			for (const struct field *f = h->fields + s->first_field;
			     f < h->fields + s->first_field + s->n_fields; f++) {
				int64_t n = 0;
				memcpy(&n, record + f->offset, f->format == 1 ? f->size : 0);
				n = f->is_signed ? (int64_t)((uint64_t)n << (64 - 8 * f->size)) >>
							   (64 - 8 * f->size)
						 : n;
				f->format == 1
					? printf(f->is_signed ? " %s=%ld" : " %s=%lu", f->name, n)
					: printf(" %s=%s", f->name, record + f->offset);
			}
			printf("\n");
		}
	return 0;
}
