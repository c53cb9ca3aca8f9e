/* test-kernel-names.c - names of the running kernel: read on demand, from the table of an earlier run, again when modules
 * change.  A fake /proc. */
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cache-dir.h"
#include "symbols/kernel-names.h"
#include "tests/unit/fake-root.h"

static const char core[] = "0000000000000000 A fixed_percpu_data\n"
			   "ffffffff81000000 T _text\n"
			   "ffffffff81000000 T startup_64\n"
			   "ffffffff81000100 t local_one\n"
			   "ffffffff81000200 T checked.cfi\n"
			   "ffffffff81f00000 T last_of_core\n";
static const char first_module[] = "ffffffffc0000000 t one_init\t[one]\n"
				   "ffffffffc0000080 t one_work\t[one]\n";
static const char second_module[] = "ffffffffc0010000 t two_work\t[two]\n";
static const char other[] = "ffffffffc0001000 t bpf_prog_a\t[bpf]\n"
			    "ffffffffc0002000 t ftrace_trampoline\t[__builtin__ftrace]\n";

static void put_kallsyms(const char *modules)
{
	char text[2048];

	(void)snprintf(text, sizeof(text), "%s%s%s", core, modules, other);
	put("/proc/kallsyms", text);
}

static void put_machine(void)
{
	put_kallsyms(first_module);
	put("/proc/modules", "one 16384 3 - Live 0xffffffffc0000000\n");
	put("/proc/sys/kernel/random/boot_id", "4d3f0b6e-3c2e-4e0f-9a51-0f8e3d9c7a11\n");
}

static int open_cache(void)
{
	int fd = cache_dir_open_in(root);

	assert_true(fd >= 0);
	return fd;
}

static struct uw_kernel_names *new_names(bool cached)
{
	struct uw_kernel_names *n = NULL;

	assert_int_equal(uw_kernel_names_new(root, cached ? open_cache() : -1, &n), 0);
	return n;
}

static void expect(struct uw_kernel_names *n, uint64_t address, const char *name)
{
	uint64_t start;
	const char *is = uw_kernel_name(n, address, &start);

	if (!name) {
		assert_null(is);
		return;
	}
	assert_non_null(is);
	assert_string_equal(is, name);
	assert_true(start <= address);
}

static void expect_all(struct uw_kernel_names *n)
{
	expect(n, 0xffffffff80ffffff, NULL);
	expect(n, 0xffffffff81000000, "_text");
	expect(n, 0xffffffff81000150, "local_one");
	expect(n, 0xffffffff81000280, "checked");
	expect(n, 0xffffffff81f00010, "last_of_core");
	expect(n, 0xffffffff81e00000, NULL); /* over 1 MiB behind one */
	expect(n, 0xffffffffc0000010, "one_init");
	expect(n, 0xffffffffc0000090, "one_work");
	expect(n, 0xffffffffc0001010, "bpf_prog_a");
	expect(n, 0xffffffffc0002010, "ftrace_trampoline");
	assert_int_equal(uw_kernel_names_error(n), 0);
}

/* A run without a table, one that writes it, one that reads it: the same names. */
static void test_same_names(void **state)
{
	(void)state;
	put_machine();
	for (int run = 0; run < 4; run++) {
		struct uw_kernel_names *n = new_names(run > 0);

		expect_all(n);
		uw_kernel_names_free(n);
	}
}

/* That the table is used: the text has other names now, and only the addresses outside of the table show them. */
static void test_table_is_used(void **state)
{
	struct uw_kernel_names *n;

	(void)state;
	put_machine();
	n = new_names(true);
	expect_all(n);
	uw_kernel_names_free(n);
	put("/proc/kallsyms", "ffffffff81000000 T _text\n"
			      "ffffffff81000100 t another\n"
			      "ffffffffc0001000 t bpf_prog_b\t[bpf]\n");
	n = new_names(true);
	expect(n, 0xffffffff81000150, "local_one");
	expect(n, 0xffffffffc0000090, "one_work");
	expect(n, 0xffffffffc0001010, "bpf_prog_b"); /* read fresh */
	uw_kernel_names_free(n);
	/* read before the first address is asked for */
	put("/proc/kallsyms", "ffffffff81000000 T _text\n");
	n = new_names(false);
	uw_kernel_names_read(n);
	put("/proc/kallsyms", "ffffffff81000000 T later\n");
	expect(n, 0xffffffff81000000, "_text");
	uw_kernel_names_free(n);
	/* no address is asked for: nothing is read */
	put("/proc/kallsyms", "ffffffff81000000 T _text\n");
	n = new_names(false);
	put("/proc/kallsyms", "ffffffff81000000 T later\n");
	expect(n, 0xffffffff81000000, "later");
	uw_kernel_names_free(n);
}

/* The kernel moves at each boot; modules are loaded and unloaded. */
static void test_other_key(void **state)
{
	struct uw_kernel_names *n;

	(void)state;
	put_machine();
	n = new_names(true);
	expect_all(n);
	uw_kernel_names_free(n);
	put_kallsyms(second_module);
	put("/proc/modules", "two 16384 0 - Live 0xffffffffc0010000\n");
	n = new_names(true);
	expect(n, 0xffffffffc0010010, "two_work");
	expect(n, 0xffffffff81000150, "local_one");
	uw_kernel_names_free(n);
	/* another use count is no other module */
	put("/proc/kallsyms", "ffffffff81000000 T _text\nffffffff81000100 t another\n");
	put("/proc/modules", "two 16384 9 - Live 0xffffffffc0010000\n");
	n = new_names(true);
	expect(n, 0xffffffff81000150, "local_one");
	uw_kernel_names_free(n);
	put("/proc/sys/kernel/random/boot_id", "00000000-3c2e-4e0f-9a51-0f8e3d9c7a11\n");
	n = new_names(true);
	expect(n, 0xffffffff81000150, "another");
	uw_kernel_names_free(n);
}

/* During a recording: a module that comes is named, and one that takes the place of another. */
static void test_modules_change(void **state)
{
	(void)state;
	for (int cached = 0; cached < 3; cached++) {
		struct uw_kernel_names *n;
		uint32_t before;

		put_machine();
		n = new_names(cached > 0);
		expect(n, 0xffffffffc0000090, "one_work");
		before = uw_kernel_names_generation(n);
		put_kallsyms("ffffffffc0000040 t two_work\t[two]\n"
			     "ffffffffc0020000 t three_work\t[three]\n");
		put("/proc/modules", "two 8192 0 - Live 0xffffffffc0000000\n"
				     "three 8192 0 - Live 0xffffffffc0020000\n");
		uw_kernel_names_tick(n);
		expect(n, 0xffffffffc0000090, "two_work");
		assert_int_not_equal(uw_kernel_names_generation(n), before);
		expect(n, 0xffffffffc0020010, "three_work");
		expect(n, 0xffffffff81000150, "local_one");
		uw_kernel_names_free(n);
	}
}

static void test_come_and_go(void **state)
{
	struct uw_kernel_names *n;

	(void)state;
	put_machine();
	n = new_names(true);
	/* before anything is read */
	assert_int_equal(uw_kernel_names_add(n, 0xffffffffc0003000, 64, "bpf_prog_late"), 0);
	assert_int_equal(uw_kernel_names_add(n, 0xffffffffc0004000, 64, "bpf_prog_gone"), 0);
	uw_kernel_names_remove(n, 0xffffffffc0004000);
	expect(n, 0xffffffffc0003010, "bpf_prog_late");
	expect_all(n);
	uw_kernel_names_remove(n, 0xffffffffc0001000);
	expect(n, 0xffffffffc0001010, NULL);
	uw_kernel_names_free(n);
}

static void test_hidden(void **state)
{
	struct uw_kernel_names *n = (void *)8;
	int cache;

	(void)state;
	put("/proc/kallsyms", "0000000000000000 A a\n0000000000000000 T _text\n");
	cache = open_cache();
	assert_int_equal(uw_kernel_names_new(root, cache, &n), UW_KERNEL_HIDDEN);
	assert_null(n);
	put("/proc/kallsyms", "");
	assert_int_equal(uw_kernel_names_new(root, -1, &n), UW_KERNEL_HIDDEN);
	assert_int_equal(uw_kernel_names_new("/nowhere", -1, &n), -ENOENT);
}

/* ---- the table ---- */

static struct uw_kallsyms *kallsyms_of(const char *text)
{
	struct uw_kallsyms *ks = NULL;
	int fd;

	put("/text", text);
	(void)chdir(root);
	fd = open("text", O_RDONLY | O_CLOEXEC);
	assert_int_equal(uw_kallsyms_new(fd, &ks), 0);
	fd_close(fd);
	return ks;
}

static int file_of(const void *data, size_t len)
{
	int fd = memfd_create("table", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	return fd;
}

static void pack(struct buffer *b, const struct uw_kernel_key *key)
{
	char text[2048];
	struct uw_kallsyms *ks;

	(void)snprintf(text, sizeof(text), "%s%s", core, first_module);
	ks = kallsyms_of(text);
	assert_int_equal(uw_kernel_table_pack(ks, 0xffffffff81000000, key, b), 0);
	uw_kallsyms_free(ks);
}

/* The same table on a kernel that began elsewhere. */
static void test_moved(void **state)
{
	const struct uw_kernel_key key = {{1, 2, 3}};
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct uw_kernel_table *t = NULL;
	uint64_t start;
	bool is_core;

	(void)state;
	pack(&b, &key);
	assert_int_equal(
		uw_kernel_table_new(file_of(b.data, b.len), b.len, 0xffffffff92000000, &key, &t),
		0);
	assert_string_equal(uw_kernel_table_name(t, 0xffffffff92000100, &start, &is_core),
			    "local_one");
	assert_true(start == 0xffffffff92000100 && is_core);
	assert_string_equal(uw_kernel_table_name(t, 0xffffffffd1000081, &start, &is_core),
			    "one_work");
	assert_false(is_core);
	/* past the page of the last symbol of an owner */
	assert_string_equal(uw_kernel_table_name(t, 0xffffffffd1000fff, &start, &is_core),
			    "one_work");
	assert_null(uw_kernel_table_name(t, 0xffffffffd1001000, &start, &is_core));
	assert_null(uw_kernel_table_name(t, 0xffffffff91ffffff, &start, &is_core));
	assert_null(uw_kernel_table_name(t, 0, &start, &is_core));
	uw_kernel_table_free(t);
}

/* Each byte damaged in turn, and each length: refused, or names within the bounds. */
static void test_damaged(void **state)
{
	const struct uw_kernel_key key = {{1, 2, 3}}, another = {{1, 2, 4}};
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct uw_kernel_table *t = NULL;

	(void)state;
	pack(&b, &key);
	assert_int_equal(uw_kernel_table_new(file_of(b.data, b.len), b.len, 0, &another, &t),
			 -ESTALE);
	for (size_t len = 0; len < b.len; len++)
		assert_int_equal(uw_kernel_table_new(file_of(b.data, len), len, 0, &key, &t),
				 -EBADMSG);
	assert_int_equal(uw_kernel_table_new(file_of(b.data, b.len), b.len + 1, 0, &key, &t),
			 -EBADMSG);
	for (size_t i = 0; i < b.len * 8; i++) {
		int r;

		b.data[i / 8] ^= (uint8_t)(1u << i % 8);
		r = uw_kernel_table_new(file_of(b.data, b.len), b.len, 0xffffffff81000000, &key,
					&t);
		b.data[i / 8] ^= (uint8_t)(1u << i % 8);
		if (r < 0)
			continue;
		for (uint64_t a = 0xffffffff80ffff00; a < 0xffffffff81000400; a += 16) {
			uint64_t start;
			bool is_core;
			const char *name = uw_kernel_table_name(t, a, &start, &is_core);

			assert_true(!name || (strlen(name) < 512 && start <= a));
		}
		uw_kernel_table_free(t);
	}
}

/* Symbols that 32 bits cannot distinguish. */
static void test_far(void **state)
{
	const struct uw_kernel_key key = {{0}};
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct uw_kallsyms *ks = kallsyms_of("ffff000000000000 T _text\nffff800000000000 T far\n");

	(void)state;
	assert_int_equal(uw_kernel_table_pack(ks, 0xffff000000000000, &key, &b), -ENOTSUP);
	uw_kallsyms_free(ks);
}

static int remove_root(void **state)
{
	(void)state;
	return fake_root_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_names),  cmocka_unit_test(test_table_is_used),
		cmocka_unit_test(test_other_key),   cmocka_unit_test(test_modules_change),
		cmocka_unit_test(test_come_and_go), cmocka_unit_test(test_hidden),
		cmocka_unit_test(test_moved),	    cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_far),
	};

	fake_root_make();
	return cmocka_run_group_tests(tests, NULL, remove_root);
}
