/* test-module.c - states and drops, what addresses mean, and files that change under us. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include <pthread.h>
#include <sys/auxv.h>

#include "symbols/parts.h"

static struct uw_module *module_of(enum uw_module_kind kind, const struct uw_build_id *id)
{
	struct uw_module *m;

	assert_int_equal(uw_module_new(kind, "/lib/image.so", id, &m), 0);
	return m;
}

static struct uw_source source_of(const uint8_t *image, size_t len)
{
	return (struct uw_source){.fd = memfd_of(image, len)};
}

static void test_states(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_source source;
	struct uw_module *m = module_of(UW_MODULE_FILE, NULL);
	struct uw_symbol symbol;

	(void)state;
	image_make(image);
	source = source_of(image, sizeof(image));
	assert_string_equal(uw_module_path(m), "/lib/image.so");
	assert_int_equal(uw_module_unwind_state(m), UW_MODULE_NEW);
	assert_int_equal(uw_module_bytes(m), 0);
	assert_int_equal(uw_module_load_bias(m), 0);
	assert_true(uw_module_want_unwind(m));
	assert_false(uw_module_want_unwind(m));
	assert_int_equal(uw_module_unwind_state(m), UW_MODULE_WANTED);
	assert_int_equal(uw_module_symbol_state(m), UW_MODULE_NEW);
	assert_null(uw_module_image(m));
	uw_module_drop_unwind(m); /* the loader may be at work: nothing happens */
	assert_int_equal(uw_module_unwind_state(m), UW_MODULE_WANTED);
	assert_int_equal(uw_module_load_unwind(m, &source), 0);
	assert_int_equal(uw_module_unwind_state(m), UW_MODULE_READY);
	assert_non_null(uw_module_image(m));
	assert_false(uw_module_want_unwind(m));
	assert_int_equal(uw_module_load_bias(m), 0x401000);
	assert_false(uw_module_symbol(m, 0x402010, &symbol));
	assert_true(uw_module_bytes(m) >= 12 + 16);
	uw_module_drop_unwind(m);
	assert_int_equal(uw_module_unwind_state(m), UW_MODULE_NEW);
	assert_int_equal(uw_module_bytes(m), 0);
	assert_null(uw_module_image(m));
	/* what addresses mean stays */
	assert_int_equal(uw_module_load_bias(m), 0x401000);
	assert_int_equal(uw_module_vaddr(m, 0x1010), 0x402010);
	assert_true(uw_module_want_unwind(m));
	assert_int_equal(uw_module_load_unwind(m, &source), 0);
	assert_int_equal(uw_module_load_symbols(m, &source), 0);
	assert_true(uw_module_symbol(m, 0x402011, &symbol));
	assert_string_equal(symbol.name, "alpha");
	uw_module_drop_symbols(m);
	assert_false(uw_module_symbol(m, 0x402011, &symbol));
	uw_module_unref(m);
	fd_close(source.fd);
}

static void test_serials_and_refs(void **state)
{
	struct uw_module *a = module_of(UW_MODULE_FILE, NULL), *b = module_of(UW_MODULE_JIT, NULL);

	(void)state;
	assert_int_not_equal(uw_module_serial(a), 0);
	assert_int_not_equal(uw_module_serial(a), uw_module_serial(b));
	assert_ptr_equal(uw_module_ref(a), a);
	assert_null(uw_module_unref(a));
	assert_string_equal(uw_module_path(a), "/lib/image.so"); /* still there */
	assert_null(uw_module_unref(a));
	assert_null(uw_module_unref(b));
	assert_null(uw_module_unref(NULL));
}

static void test_unreadable(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_source junk = source_of((const uint8_t *)"#!/bin/sh\n", 10), source;
	struct uw_module *m = module_of(UW_MODULE_FILE, NULL);

	(void)state;
	image_make(image);
	source = source_of(image, sizeof(image));
	assert_int_equal(uw_module_load_unwind(m, &junk), -ENOEXEC);
	assert_int_equal(uw_module_unwind_state(m), UW_MODULE_UNREADABLE);
	assert_int_equal(uw_module_load_symbols(m, &source), 0);
	uw_module_set_unreadable(m); /* a READY half stays */
	assert_int_equal(uw_module_symbol_state(m), UW_MODULE_READY);
	uw_module_drop_unwind(m); /* and may be tried again */
	assert_int_equal(uw_module_unwind_state(m), UW_MODULE_NEW);
	uw_module_set_unreadable(m);
	assert_int_equal(uw_module_unwind_state(m), UW_MODULE_UNREADABLE);
	uw_module_unref(m);
	fd_close(junk.fd);
	fd_close(source.fd);
}

static void test_addresses(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_source source;
	struct uw_module *m = module_of(UW_MODULE_FILE, NULL);

	(void)state;
	image_make(image);
	source = source_of(image, sizeof(image));
	assert_int_equal(uw_module_vaddr(m, 0x1234), 0x1234); /* nothing known yet */
	assert_int_equal(uw_module_load_unwind(m, &source), 0);
	assert_int_equal(uw_module_vaddr(m, 0x1000), 0x402000);
	assert_int_equal(uw_module_vaddr(m, 0x11ff), 0x4021ff);
	assert_int_equal(uw_module_vaddr(m, 0x1fff),
			 0x402fff); /* the rest of the page is mapped too */
	assert_int_equal(uw_module_vaddr(m, 0x2000), 0x2000);  /* no segment */
	assert_int_equal(uw_module_vaddr(m, 0x340), 0x400340); /* not code, but in the file */
	uw_module_unref(m);
	fd_close(source.fd);
}

/* Two segments in one page of the file: the exact one wins over the rest of the other's page. */
static void test_shared_page(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_source source;
	struct uw_module *m = module_of(UW_MODULE_FILE, NULL);
	const Elf64_Phdr second = {.p_type = PT_LOAD,
				   .p_flags = PF_R | PF_X,
				   .p_offset = 0x1200,
				   .p_vaddr = 0x403200,
				   .p_filesz = 0x100,
				   .p_memsz = 0x100};

	(void)state;
	image_make(image);
	memcpy(image + 0x40 + 3 * 56, &second, sizeof(second));
	source = source_of(image, sizeof(image));
	assert_int_equal(uw_module_load_unwind(m, &source), 0);
	assert_int_equal(uw_module_vaddr(m, 0x11ff), 0x4021ff);
	assert_int_equal(uw_module_vaddr(m, 0x1200), 0x403200);
	assert_int_equal(uw_module_vaddr(m, 0x1300), 0x402300);
	uw_module_unref(m);
	fd_close(source.fd);
}

static void test_build_id(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_build_id id = image_id(), other = image_id(), found;
	struct uw_source source;
	struct uw_module *m = module_of(UW_MODULE_FILE, NULL);

	(void)state;
	image_make(image);
	source = source_of(image, sizeof(image));
	assert_int_equal(uw_source_build_id(&source, &found), 0);
	assert_memory_equal(&found, &id, sizeof(id));
	assert_int_equal(uw_module_build_id(m)->len, 0);
	assert_int_equal(uw_module_load_unwind(m, &source), 0);
	assert_memory_equal(uw_module_build_id(m), &id, sizeof(id));
	uw_module_unref(m);
	m = module_of(UW_MODULE_FILE, &id);
	assert_int_equal(uw_module_load_unwind(m, &source), 0);
	uw_module_unref(m);
	other.bytes[19]++; /* another file stands at the path now */
	m = module_of(UW_MODULE_FILE, &other);
	assert_int_equal(uw_module_load_unwind(m, &source), -ESTALE);
	assert_int_equal(uw_module_load_symbols(m, &source), -ESTALE);
	assert_int_equal(uw_module_unwind_state(m), UW_MODULE_UNREADABLE);
	assert_memory_equal(uw_module_build_id(m), &other, sizeof(other));
	uw_module_unref(m);
	fd_close(source.fd);
}

/* Rewritten between an eviction and the next load: addresses must not change their meaning. */
static void test_rewritten(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_source source;
	struct uw_module *m = module_of(UW_MODULE_FILE, NULL);

	(void)state;
	image_make(image);
	source = source_of(image, sizeof(image));
	assert_int_equal(uw_module_load_unwind(m, &source), 0);
	uw_module_drop_unwind(m);
	image[0x40 + 56 + 16 + 1] = 0x30; /* p_vaddr of the second segment: 0x403000 */
	assert_int_equal(pwrite(source.fd, image, sizeof(image), 0), sizeof(image));
	assert_int_equal(uw_module_load_unwind(m, &source), -ESTALE);
	assert_int_equal(uw_module_vaddr(m, 0x1000), 0x402000);
	uw_module_unref(m);
	fd_close(source.fd);
}

static void test_jit(void **state)
{
	struct uw_source source = {.fd = -1};
	struct uw_module *m = module_of(UW_MODULE_JIT, NULL);

	(void)state;
	assert_int_equal(uw_module_load_unwind(m, &source), 0);
	assert_null(uw_module_image(m)->eh_frame.data);
	assert_int_equal(uw_module_image(m)->arch, UW_ARCH_HOST);
	assert_int_equal(uw_module_load_symbols(m, &source), -ENOENT); /* no map yet */
	uw_module_drop_symbols(m);
	assert_true(uw_module_want_symbols(m));
	uw_module_unref(m);
}

/* ---- real ones ---- */

static void test_vdso(void **state)
{
	uint64_t at = getauxval(AT_SYSINFO_EHDR);
	struct uw_memory memory = {.read = self_read};
	struct uw_source source = {.fd = -1, .memory = &memory, .start = at, .end = at + 0x2000};
	struct uw_module *m = module_of(UW_MODULE_MEMORY, NULL);
	struct uw_symbol symbol;
	bool found = false;

	(void)state;
	if (!at) {
		print_message("skipped: no vDSO\n");
		uw_module_unref(m);
		return;
	}
	assert_int_equal(uw_module_load_unwind(m, &source), 0);
	assert_non_null(uw_module_image(m)->eh_frame.data);
	assert_non_null(uw_module_image(m)->eh_frame_hdr.data);
	assert_int_equal(uw_module_build_id(m)->len, 20);
	assert_int_equal(uw_module_load_symbols(m, &source), 0);
	for (uint64_t a = 0; a < 0x2000; a++)
		found |= uw_module_symbol(m, a, &symbol) && strstr(symbol.name, "clock_gettime");
	assert_true(found);
	uw_module_unref(m);
}

struct place {
	uint64_t start, end;
	char path[PATH_MAX];
};

/* Where the file that holds @address is mapped, first byte to last. */
static void find_place(uint64_t address, struct place *place)
{
	_cleanup_(file_closep) FILE *maps = fopen("/proc/self/maps", "re");
	struct place now = {0};
	char line[PATH_MAX + 256];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		char path[PATH_MAX] = "";
		uint64_t start, end;

		if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %4000s", &start, &end, path) < 2)
			continue;
		if (strcmp(path, now.path) != 0) {
			now.start = start;
			strcpy(now.path, path);
		}
		now.end = end;
		if (address >= start && address < end)
			*place = now;
		else if (!strcmp(place->path, path) && path[0])
			place->end = end;
	}
}

/* libc read from our own memory gives the same as libc's file. */
static void test_memory_as_file(void **state)
{
	struct place libc = {0};
	struct uw_memory memory = {.read = self_read};
	struct uw_source file, source = {.fd = -1, .memory = &memory};
	struct uw_module *a = module_of(UW_MODULE_FILE, NULL),
			 *b = module_of(UW_MODULE_MEMORY, NULL);
	struct uw_symbol in_file, in_memory;
	const struct uw_image *x, *y;
	uint64_t vaddr;

	(void)state;
	find_place((uint64_t)(uintptr_t)getauxval, &libc);
	file = (struct uw_source){.fd = open_or_die(libc.path)};
	source.start = libc.start;
	source.end = libc.end;
	assert_int_equal(uw_module_load_unwind(a, &file), 0);
	assert_int_equal(uw_module_load_unwind(b, &source), 0);
	x = uw_module_image(a);
	y = uw_module_image(b);
	assert_memory_equal(uw_module_build_id(a), uw_module_build_id(b),
			    sizeof(struct uw_build_id));
	assert_int_equal(uw_module_load_bias(a), uw_module_load_bias(b));
	assert_int_equal(x->eh_frame_hdr.size, y->eh_frame_hdr.size);
	assert_memory_equal(x->eh_frame_hdr.data, y->eh_frame_hdr.data, x->eh_frame_hdr.size);
	assert_int_equal(x->eh_frame.vaddr, y->eh_frame.vaddr);
	assert_true(y->eh_frame.size >= x->eh_frame.size); /* to the end of the segment */
	assert_memory_equal(x->eh_frame.data, y->eh_frame.data, x->eh_frame.size);
	assert_int_equal(uw_module_load_symbols(a, &file), 0);
	assert_int_equal(uw_module_load_symbols(b, &source), 0);
	vaddr = (uint64_t)(uintptr_t)getauxval - libc.start;
	assert_true(uw_module_symbol(a, vaddr, &in_file));
	assert_true(uw_module_symbol(b, vaddr, &in_memory));
	assert_non_null(strstr(in_memory.name, "getauxval"));
	assert_int_equal(in_memory.start, in_file.start);
	assert_int_equal(in_memory.size, in_file.size);
	uw_module_unref(a);
	uw_module_unref(b);
	fd_close(file.fd);
}

/* ---- damage ---- */

static void use_all(struct uw_source *source)
{
	struct uw_module *m = module_of(UW_MODULE_FILE, NULL);
	struct uw_symbol symbol;

	if (uw_module_load_unwind(m, source) == 0) {
		const struct uw_image *image = uw_module_image(m);

		assert_true(image->eh_frame.size <= IMAGE_SIZE &&
			    image->eh_frame_hdr.size <= IMAGE_SIZE);
	}
	if (uw_module_load_symbols(m, source) == 0)
		for (uint64_t a = 0x401ff0; a < 0x402210; a++)
			if (uw_module_symbol(m, a, &symbol))
				assert_true(symbol.start <= a && a - symbol.start < symbol.size &&
					    strlen(symbol.name));
	uw_module_unref(m);
}

static void test_truncated(void **state)
{
	uint8_t image[IMAGE_SIZE];

	(void)state;
	image_make(image);
	for (size_t len = 0; len < IMAGE_SIZE; len += len < 0x400 ? 1 : 61) {
		struct uw_source source = source_of(image, len);

		use_all(&source);
		fd_close(source.fd);
	}
}

/* Every bit of every header, symbol and note. */
static void test_flipped(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_source source;

	(void)state;
	image_make(image);
	source = source_of(image, sizeof(image));
	for (size_t at = 0; at < IMAGE_SIZE; at++) {
		if (!image[at] && (at & 0x1ff) >= 0x180)
			continue; /* gaps */
		for (unsigned bit = 0; bit < 8; bit++) {
			uint8_t byte = (uint8_t)(image[at] ^ 1u << bit);

			assert_int_equal(pwrite(source.fd, &byte, 1, (off_t)at), 1);
			use_all(&source);
		}
		assert_int_equal(pwrite(source.fd, &image[at], 1, (off_t)at), 1);
	}
	fd_close(source.fd);
}

struct writer {
	int fd;
	uint8_t image[IMAGE_SIZE];
	_Atomic bool stop;
};

static void *rewrite(void *arg)
{
	struct writer *w = arg;

	for (unsigned i = 0; !atomic_load(&w->stop); i++) {
		(void)!ftruncate(w->fd, (off_t)(i * 997 % IMAGE_SIZE));
		(void)!pwrite(w->fd, w->image + i * 31 % 0x2000, 64, (off_t)(i * 64 % 0x2000));
		(void)!pwrite(w->fd, w->image, IMAGE_SIZE, 0);
	}
	return NULL;
}

/* A target that truncates and rewrites its file while we read it. */
static void test_changes_while_loading(void **state)
{
	struct writer w = {.stop = false};
	struct uw_source source;
	pthread_t thread;

	(void)state;
	image_make(w.image);
	source = source_of(w.image, IMAGE_SIZE);
	w.fd = source.fd;
	assert_int_equal(pthread_create(&thread, NULL, rewrite, &w), 0);
	for (unsigned i = 0; i < 3000; i++)
		use_all(&source);
	atomic_store(&w.stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	fd_close(source.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_serials_and_refs),
		cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_shared_page),
		cmocka_unit_test(test_build_id),
		cmocka_unit_test(test_rewritten),
		cmocka_unit_test(test_jit),
		cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_memory_as_file),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_flipped),
		cmocka_unit_test(test_changes_while_loading),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
