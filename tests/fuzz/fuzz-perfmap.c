/* fuzz-perfmap.c - any bytes as a perf map, and behind the magic number as a jitdump; also as
 * kallsyms. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/image.h"
#include "symbols/module.h"
#include "symbols/kallsyms.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int file_of(const void *head, size_t head_len, const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, head, head_len) != (ssize_t)head_len ||
	    write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0)
		abort();
	return fd;
}

/* The unwinding information that was made of it is whole: records end in the section, and each address is in code. */
static void unwinding(const struct uw_module *m)
{
	const struct uw_image *image = uw_module_image(m);
	struct uw_symbol s;
	uint64_t begin;
	uint32_t len, back;

	for (size_t at = 0; image && at + 4 <= image->eh_frame.size; at += 4 + len) {
		memcpy(&len, image->eh_frame.data + at, 4);
		if (!len)
			return;
		if (len > image->eh_frame.size - at - 4 || len < 4)
			abort();
		memcpy(&back, image->eh_frame.data + at + 4, 4);
		if (back > at + 4 || (back && len < 20))
			abort();
		memcpy(&begin, image->eh_frame.data + at + 8, 8);
		if (back && !uw_module_symbol(m, begin, &s))
			abort();
	}
}

/* Looks where the input may well have put something: at each 8 bytes of it as an address. */
static void load(int fd, const uint8_t *data, size_t size)
{
	struct uw_source source = {.fd = fd, .live = size & 1}; /* times of the counter */
	struct uw_module *m;
	struct uw_symbol s;

	if (uw_module_new(UW_MODULE_JIT, "map", NULL, &m) < 0)
		abort();
	(void)uw_module_load_symbols(m, &source);
	for (uint64_t a = 0; a < 0x4000; a += 8)
		if (uw_module_symbol(m, a, &s) && (a - s.start >= s.size || strlen(s.name) > 1024))
			abort();
	for (size_t i = 0; i + 8 <= size && i < 4096; i++) {
		uint64_t a;

		memcpy(&a, data + i, sizeof(a));
		if (uw_module_symbol(m, a, &s) && a - s.start >= s.size)
			abort();
		if (uw_module_symbol_at(m, a, a / 2, &s) &&
		    (a - s.start >= s.size || (s.file && strlen(s.file) > 1024)))
			abort();
	}
	unwinding(m);
	uw_module_unref(m);
	close(fd);
}

static void kallsyms(int fd)
{
	struct uw_kallsyms *ks;
	uint64_t start;

	if (uw_kallsyms_new(fd, &ks) == 0) {
		for (uint64_t a = 0xffffffff80fffff0; a < 0xffffffff81002000; a += 8) {
			const char *name = uw_kallsyms_name(ks, a, &start);

			if (name && (strlen(name) > 511 || start > a))
				abort();
		}
		uw_kallsyms_free(ks);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t header[3] = {0x4a695444, 1, 12};

	load(file_of("", 0, data, size), data, size);
	load(file_of(header, sizeof(header), data, size), data, size);
	kallsyms(file_of("", 0, data, size));
	return 0;
}
