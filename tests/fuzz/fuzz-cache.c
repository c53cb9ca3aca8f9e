/* fuzz-cache.c - any bytes as a file of the cache folder: lines of a module, names of the kernel.  The key is the one in the
 * bytes, as of a file that was damaged or made behind it. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "session/loader/line-cache.h"
#include "symbols/kernel-names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *copy_of(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	return copy;
}

static void lines(const uint8_t *data, size_t size)
{
	struct load_line found[64];
	struct load_file file;
	struct uw_build_id id;
	struct line_file *f;

	if (size < 24 + sizeof(file) + sizeof(id))
		return;
	memcpy(&file, data + 24, sizeof(file));
	memcpy(&id, data + 24 + sizeof(file), sizeof(id));
	if (line_file_new(copy_of(data, size), size, &file, &id, &f) < 0)
		return;
	for (size_t i = 0; i + 8 <= size && i < 4096; i++) {
		uint64_t vaddr;
		int n;

		memcpy(&vaddr, data + i, sizeof(vaddr));
		n = line_file_find(f, vaddr, found);
		for (int k = 0; k < n; k++)
			if (strlen(found[k].function) >= 4096 ||
			    (found[k].file && strlen(found[k].file) >= 4096))
				abort();
	}
	line_file_free(f);
}

static void kernel(const uint8_t *data, size_t size)
{
	int fd = memfd_create("table", MFD_CLOEXEC);
	struct uw_kernel_key key;
	struct uw_kernel_table *t;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	memset(&key, 0, sizeof(key));
	if (size >= 8 + sizeof(key))
		memcpy(&key, data + 8, sizeof(key));
	if (uw_kernel_table_new(fd, size, 0xffffffff81000000, &key, &t) < 0)
		return;
	for (uint64_t a = 0xffffffff80fff000; a < 0xffffffff81004000; a += 8) {
		uint64_t start;
		bool is_core;
		const char *name = uw_kernel_table_name(t, a, &start, &is_core);

		if (name && (strlen(name) > 512 || start > a))
			abort();
	}
	uw_kernel_table_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	lines(data, size);
	kernel(data, size);
	return 0;
}
