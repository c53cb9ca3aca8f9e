/* test-modules.c - one module a file, however it is named; order of use; bounds. */
#include "tests/unit/unwinder/fixture.h"

#include "unwinder/modules.h"
#include "unwinder/parts.h"

static struct uw_file_id by_inode(uint64_t inode)
{
	return (struct uw_file_id){.major = 8, .minor = 1, .inode = inode, .generation = 3};
}

static struct uw_file_id by_build_id(uint8_t first)
{
	struct uw_file_id id = {.build_id = image_id()};

	id.build_id.bytes[0] = first;
	return id;
}

static struct uw_module *get(struct uw_modules *set, const char *path, struct uw_file_id id)
{
	struct uw_module *m = NULL;

	assert_int_equal(uw_modules_get(set, path, &id, &m), 0);
	assert_non_null(m);
	uw_module_unref(m); /* the set's reference keeps it in these tests */
	return m;
}

/* Loads the hand-made image, with a build id that begins with @first, into @m. */
static void load_as(struct uw_modules *set, struct uw_module *m, uint8_t first)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_source source;

	image_make(image);
	image[0x210] = first;
	source = (struct uw_source){.fd = memfd_of(image, sizeof(image))};
	assert_int_equal(uw_module_load_unwind(m, &source), 0);
	assert_int_equal(uw_modules_loaded(set, m), 0);
	fd_close(source.fd);
}

static void load(struct uw_modules *set, struct uw_module *m)
{
	load_as(set, m, 1);
}

static struct uw_modules *set_new(void)
{
	struct uw_modules *set;

	assert_int_equal(uw_modules_new(&set), 0);
	return set;
}

static void test_keys(void **state)
{
	struct uw_modules *set = set_new();
	struct uw_file_id nothing = {0}, generation = by_inode(5), minor = by_inode(5);
	struct uw_module *a = get(set, "/a", by_inode(5));

	(void)state;
	assert_ptr_equal(get(set, "/elsewhere", by_inode(5)),
			 a); /* a path says less than an inode */
	assert_ptr_not_equal(get(set, "/a", by_inode(6)), a);
	generation.generation++;
	assert_ptr_not_equal(get(set, "/a", generation), a);
	minor.minor++;
	assert_ptr_not_equal(get(set, "/a", minor), a);
	assert_ptr_equal(get(set, "/b", by_build_id(1)), get(set, "/c", by_build_id(1)));
	assert_ptr_not_equal(get(set, "/b", by_build_id(1)), get(set, "/b", by_build_id(2)));
	assert_ptr_equal(get(set, "//anon", nothing), get(set, "//anon", nothing));
	assert_ptr_not_equal(get(set, "//anon", nothing), get(set, "/a", nothing));
	assert_int_equal(uw_module_kind(a), UW_MODULE_FILE);
	uw_modules_free(set);
}

/* One record gives the build id, another the inode, a third (a query) both: all are one. */
static void test_join_by_both(void **state)
{
	struct uw_modules *set = set_new();
	struct uw_file_id both = by_build_id(1);
	struct uw_module *m = get(set, "/a", by_build_id(1));

	(void)state;
	both.major = 8;
	both.minor = 1;
	both.inode = 5;
	both.generation = 3;
	assert_ptr_equal(get(set, "/a", both), m);
	assert_ptr_equal(get(set, "/a", by_inode(5)), m);
	uw_modules_free(set);
	/* the other way round: first the inode */
	set = set_new();
	m = get(set, "/a", by_inode(5));
	assert_ptr_equal(get(set, "/a", both), m);
	assert_ptr_equal(get(set, "/a", by_build_id(1)), m);
	uw_modules_free(set);
}

static void test_join_by_loading(void **state)
{
	struct uw_modules *set = set_new();
	struct uw_module *m = get(set, "/a", by_inode(5)), *other;

	(void)state;
	load(set, m);
	assert_ptr_equal(get(set, "/b", by_build_id(1)), m);
	/* a second inode with the same contents: known by its build id from then on */
	other = get(set, "/copy", by_inode(6));
	assert_ptr_not_equal(other, m);
	load(set, other);
	assert_ptr_equal(get(set, "/copy", by_inode(6)), m);
	assert_ptr_equal(get(set, "/b", by_build_id(1)), m);
	uw_modules_free(set);
}

static void test_written_in_place(void **state)
{
	struct uw_modules *set = set_new();
	struct uw_module *m = get(set, "/a", by_inode(5)), *anew;
	struct uw_file_id both = by_build_id(77);

	(void)state;
	load(set, m); /* build id 01... */
	both.major = 8;
	both.minor = 1;
	both.inode = 5;
	both.generation = 3;
	anew = get(set, "/a", both);
	assert_ptr_not_equal(anew, m);
	assert_ptr_equal(get(set, "/a", by_inode(5)), anew); /* what the inode holds now */
	assert_ptr_equal(get(set, "/a", by_build_id(1)), m);
	uw_modules_free(set);
}

/* Taken for build id 77 by its inode; loading says 01. */
static void test_wrong_guess(void **state)
{
	struct uw_modules *set = set_new();
	struct uw_module *m = get(set, "/a", by_inode(5));
	struct uw_file_id both = by_build_id(77);

	(void)state;
	both.major = 8;
	both.minor = 1;
	both.inode = 5;
	both.generation = 3;
	assert_ptr_equal(get(set, "/a", both), m);
	load(set, m);
	assert_ptr_not_equal(get(set, "/a", by_build_id(77)), m);
	assert_ptr_equal(get(set, "/a", by_build_id(1)), m);
	uw_modules_free(set);
}

static void test_order(void **state)
{
	struct uw_modules *set = set_new();
	struct uw_module *a = get(set, "/a", by_inode(1)), *b = get(set, "/b", by_inode(2)),
			 *c = get(set, "/c", by_inode(3));

	(void)state;
	assert_null(uw_modules_oldest(set)); /* nothing is loaded */
	assert_int_equal(uw_modules_bytes(set), 0);
	load_as(set, c, 3);
	assert_ptr_equal(uw_modules_oldest(set), c);
	load_as(set, b, 2);
	assert_ptr_equal(uw_modules_oldest(set), b);
	load_as(set, a, 1);
	assert_ptr_equal(uw_modules_oldest(set), a);
	uw_modules_touch(set, a);
	assert_ptr_equal(uw_modules_oldest(set), b);
	get(set, "/b", by_inode(2)); /* a use as well */
	assert_ptr_equal(uw_modules_oldest(set), c);
	assert_int_equal(uw_modules_bytes(set),
			 uw_module_bytes(a) + uw_module_bytes(b) + uw_module_bytes(c));
	uw_module_drop_unwind(c);
	assert_ptr_equal(uw_modules_oldest(set), a);
	uw_modules_free(set);
}

static void test_added(void **state)
{
	struct uw_modules *set = set_new();
	struct uw_module *a, *b;

	(void)state;
	assert_int_equal(uw_modules_add(set, UW_MODULE_MEMORY, "[vdso]", &a), 0);
	assert_int_equal(uw_modules_add(set, UW_MODULE_MEMORY, "[vdso]", &b), 0);
	assert_ptr_not_equal(a, b);
	assert_int_equal(uw_module_kind(a), UW_MODULE_MEMORY);
	load(set, a); /* not shared by key, whatever its build id */
	assert_ptr_not_equal(get(set, "/x", by_build_id(1)), a);
	uw_modules_free(set);
	assert_string_equal(uw_module_path(a), "[vdso]"); /* our references outlive the set */
	uw_module_unref(a);
	uw_module_unref(b);
}

static void count(struct uw_module *module, void *arg)
{
	(void)module;
	++*(unsigned *)arg;
}

/* A year of compilers: what nobody holds any more goes, what is held stays. */
static void test_bound(void **state)
{
	struct uw_modules *set = set_new();
	struct uw_file_id id = by_inode(1);
	struct uw_module *kept;
	unsigned n = 0;

	(void)state;
	assert_int_equal(uw_modules_get(set, "/kept", &id, &kept), 0);
	for (uint64_t i = 2; i < 20000; i++)
		get(set, "/tmp/x", by_inode(i));
	uw_modules_for_each(set, count, &n);
	assert_int_equal(n, 16384);
	assert_ptr_equal(get(set, "/kept", by_inode(1)), kept);
	get(set, "/tmp/x", by_inode(2)); /* gone: made anew, without a trace of the old one */
	uw_module_unref(kept);
	uw_modules_free(set);
}

/* One build id at thousands of places: the keys of one module are bounded. */
static void test_many_places(void **state)
{
	struct uw_modules *set = set_new();
	struct uw_file_id id = by_build_id(1);
	struct uw_module *m = get(set, "/a", id);

	(void)state;
	id.major = 8;
	for (id.inode = 1; id.inode < 5000; id.inode++)
		assert_ptr_equal(get(set, "/a", id), m);
	uw_modules_free(set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_join_by_both),
		cmocka_unit_test(test_join_by_loading),
		cmocka_unit_test(test_written_in_place),
		cmocka_unit_test(test_wrong_guess),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_added),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_many_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
