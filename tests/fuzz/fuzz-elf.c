/* fuzz-elf.c - any bytes as a module's file, as its separate debug file, and as a process's memory:
 * unwind half, symbols, lookups.  (Lines are libdw's work and not searched here.) */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bytes_memory {
	struct uw_memory memory;
	const uint8_t *data;
	size_t size;
};

#define MEMORY_START 0x10000000ull

static ssize_t read_bytes(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct bytes_memory *m = container_of(memory, struct bytes_memory, memory);

	if (address < MEMORY_START || address - MEMORY_START >= m->size)
		return -14;
	len = min_u64(len, m->size - (address - MEMORY_START));
	memcpy(to, m->data + (address - MEMORY_START), len);
	return (ssize_t)len;
}

static int file_of(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	return fd;
}

struct debug_source {
	struct uw_source source;
	const uint8_t *data;
	size_t size;
};

/* Whatever debug file is asked for: the same bytes. */
static int open_same(struct uw_source *source, const char *path)
{
	struct debug_source *s = container_of(source, struct debug_source, source);

	if (strlen(path) > 8192)
		abort();
	return file_of(s->data, s->size);
}

static void look(struct uw_module *m, uint64_t vaddr)
{
	struct uw_symbol s;

	if (!uw_module_symbol(m, vaddr, &s))
		return;
	if (vaddr - s.start >= s.size || !*s.name || strlen(s.name) > (64 << 10))
		abort();
}

static void load(struct uw_source *source)
{
	struct uw_module *m;
	const struct uw_image *image;

	if (uw_module_new(UW_MODULE_FILE, "/usr/bin/x", NULL, &m) < 0)
		abort();
	(void)uw_module_load_unwind(m, source);
	(void)uw_module_load_symbols(m, source);
	image = uw_module_image(m);
	for (size_t i = 0; image && i < image->n_segments; i++) {
		const struct uw_segment *s = &image->segments[i];
		uint64_t v = uw_module_vaddr(m, s->offset);

		look(m, v);
		for (uint64_t step = 0; step < 64; step++)
			look(m, s->vaddr + step * (s->memsz / 64 + 1));
	}
	if (image && (image->eh_frame.size > (256 << 20) || uw_module_bytes(m) < image->bytes))
		abort();
	uw_module_drop_unwind(m);
	uw_module_drop_symbols(m);
	if (uw_module_bytes(m))
		abort();
	uw_module_unref(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct debug_source file = {.source = {.open = open_same}, .data = data, .size = size};
	struct bytes_memory memory = {.memory.read = read_bytes, .data = data, .size = size};
	struct uw_source process = {.fd = -1, .memory = &memory.memory, .start = MEMORY_START};

	file.source.fd = file_of(data, size);
	load(&file.source);
	close(file.source.fd);
	process.end = MEMORY_START + size;
	load(&process);
	return 0;
}
