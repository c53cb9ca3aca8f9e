/* test-oracle-table.c - the search table that is made from .eh_frame is the linker's own
 * .eh_frame_hdr. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <string.h>

#include "unwinder/oracle.h"

#define BIAS 0x7f0000000000ull

struct entry {
	int32_t start, fde;
};

static struct uw_module *self;
static struct uw_image image; /* a shallow copy that the tests damage */

static int setup(void **state)
{
	struct uw_source source = {.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};

	(void)state;
	assert_true(source.fd >= 0);
	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/proc/self/exe", NULL, &self), 0);
	(void)uw_module_want_unwind(self);
	assert_int_equal(uw_module_load_unwind(self, &source), 0);
	fd_close(source.fd);
	image = *uw_module_image(self);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	uw_module_unref(self);
	return 0;
}

struct made {
	struct oracle_space slot;
	struct oracle_module module;
};

static void make(struct made *made)
{
	*made = (struct made){.module = {.module = self, .image = &image, .bias = BIAS}};
	assert_int_equal(oracle_table_init(&made->slot, &made->module), 0);
}

static void unmake(struct made *made)
{
	free(made->module.made_table);
	uw_regions_deinit(&made->slot.regions);
}

static void test_of_header(void **state)
{
	struct made made;

	(void)state;
	make(&made);
	assert_null(made.module.made_table);
	assert_true(made.module.n_table > 5);
	assert_int_equal(made.module.table_base, image.eh_frame_hdr.vaddr + BIAS);
	assert_int_equal(made.module.table,
			 image.eh_frame_hdr.vaddr + BIAS + 12); /* 4 encodings, pointer, count */
	unmake(&made);
}

static void test_made(void **state)
{
	struct uw_section hdr = image.eh_frame_hdr;
	const struct entry *own, *linkers = (const struct entry *)(const void *)(hdr.data + 12);
	struct made made;
	uint64_t word;
	uint32_t n;

	(void)state;
	memcpy(&n, hdr.data + 8, sizeof(n));
	image.eh_frame_hdr = (struct uw_section){0};
	make(&made);
	own = made.module.made_table;
	assert_non_null(own);
	assert_int_equal(made.module.n_table, n);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(image.eh_frame.vaddr + (uint64_t)own[i].start,
				 hdr.vaddr + (uint64_t)linkers[i].start);
		assert_int_equal(image.eh_frame.vaddr + (uint64_t)own[i].fde,
				 hdr.vaddr + (uint64_t)linkers[i].fde);
	}
	/* libunwind reads it as memory */
	assert_true(uw_regions_word(&made.slot.regions, made.module.table + 8, &word));
	assert_memory_equal(&word, &own[1], 8);
	unmake(&made);
	image.eh_frame_hdr = hdr;
}

/* A header that lies about its table, or has another form, is not used. */
static void test_bad_header(void **state)
{
	struct uw_section hdr = image.eh_frame_hdr;
	static const struct {
		size_t at;
		uint8_t value;
	} damage[] = {{0, 2}, {1, 0xff}, {2, 0x0b}, {3, 0x1b}, {11, 0x7f}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(damage); i++) {
		struct made made;

		image.eh_frame_hdr.data = malloc(hdr.size);
		assert_non_null(image.eh_frame_hdr.data);
		memcpy(image.eh_frame_hdr.data, hdr.data, hdr.size);
		image.eh_frame_hdr.data[damage[i].at] = damage[i].value;
		make(&made);
		assert_non_null(made.module.made_table);
		unmake(&made);
		free(image.eh_frame_hdr.data);
	}
	image.eh_frame_hdr = hdr;
}

/* Every length of .eh_frame, and every byte of its beginning changed: bounds hold (sanitizers look
 * on). */
static void test_damaged_frames(void **state)
{
	struct uw_section hdr = image.eh_frame_hdr, frames = image.eh_frame;
	size_t size = (size_t)min_u64(frames.size, 600);
	struct made made;

	(void)state;
	image.eh_frame_hdr = (struct uw_section){0};
	for (size_t len = 0; len < size; len++) {
		image.eh_frame.data = malloc(len + 1);
		assert_non_null(image.eh_frame.data);
		memcpy(image.eh_frame.data, frames.data, len);
		image.eh_frame.size = len;
		make(&made);
		assert_true(made.module.n_table <= len / 8);
		unmake(&made);
		free(image.eh_frame.data);
	}
	image.eh_frame.size = size;
	for (size_t at = 0; at < size * 2; at++) {
		image.eh_frame.data = malloc(size);
		assert_non_null(image.eh_frame.data);
		memcpy(image.eh_frame.data, frames.data, size);
		image.eh_frame.data[at / 2] = at & 1 ? 0xff : 0;
		make(&made);
		assert_true(made.module.n_table <= size / 8);
		unmake(&made);
		free(image.eh_frame.data);
	}
	image.eh_frame = frames;
	image.eh_frame_hdr = hdr;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_header),
		cmocka_unit_test(test_made),
		cmocka_unit_test(test_bad_header),
		cmocka_unit_test(test_damaged_frames),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
