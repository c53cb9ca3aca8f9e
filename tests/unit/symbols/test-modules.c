/* test-modules.c - one module a file, however it is named; order of use; bounds. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include "symbols/modules.h"
#include "symbols/parts.h"

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
			 a); /* a path proves less than an inode */
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
	struct uw_module *m = get(set, "/a", by_inode(5)), *fresh;
	struct uw_file_id both = by_build_id(77);

	(void)state;
	load(set, m); /* build id 01... */
	both.major = 8;
	both.minor = 1;
	both.inode = 5;
	both.generation = 3;
	fresh = get(set, "/a", both);
	assert_ptr_not_equal(fresh, m);
	assert_ptr_equal(get(set, "/a", by_inode(5)), fresh); /* what the inode holds now */
	assert_ptr_equal(get(set, "/a", by_build_id(1)), m);
	uw_modules_free(set);
}

/* Taken for build id 77 by its inode; loading finds 01. */
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

/* Drops unwind halves: at once, or only noting it, as another thread would do it later. */
struct dropper {
	struct uw_module *dropped[8], *used;
	size_t n;
	bool later;
	int r;
};

static int drop(struct uw_module *module, void *arg)
{
	struct dropper *d = arg;

	assert_true(d->n < ARRAY_SIZE(d->dropped));
	d->dropped[d->n++] = module;
	if (!d->later)
		uw_module_drop_unwind(module);
	return d->r;
}

static bool in_use(const struct uw_module *module, void *arg)
{
	const struct dropper *d = arg;

	return module == d->used;
}

static struct dropper keep_small(struct uw_modules *set, size_t bytes, size_t files, size_t most,
				 struct dropper d)
{
	const struct uw_modules_limit limit = {.bytes = bytes,
					       .files = files,
					       .most = most,
					       .in_use = in_use,
					       .drop_unwind = drop,
					       .arg = &d};

	d.n = 0;
	assert_int_equal(uw_modules_keep_small(set, &limit), d.r);
	return d;
}

static void assert_dropped(const struct dropper *d, struct uw_module *const *modules, size_t n)
{
	assert_int_equal(d->n, n);
	for (size_t i = 0; i < n; i++)
		assert_ptr_equal(d->dropped[i], modules[i]);
}

static void test_order(void **state)
{
	struct uw_modules *set = set_new();
	struct uw_module *a = get(set, "/a", by_inode(1)), *b = get(set, "/b", by_inode(2)),
			 *c = get(set, "/c", by_inode(3));
	struct dropper d = {0};
	size_t each;

	(void)state;
	get(set, "/never-loaded", by_inode(4));
	d = keep_small(set, 0, 0, 0, d);
	assert_dropped(&d, NULL, 0);
	load_as(set, a, 1);
	load_as(set, b, 2);
	load_as(set, c, 3);
	each = uw_module_bytes(a);
	assert_int_equal(uw_modules_bytes(set), 3 * each);
	d = keep_small(set, 3 * each, 3, 0, d); /* within it */
	assert_dropped(&d, NULL, 0);
	get(set, "/a", by_inode(1)); /* a use */
	d = keep_small(set, 3 * each - 1, 3, 0, d);
	assert_dropped(&d, (struct uw_module *[]){b}, 1);
	assert_int_equal(uw_modules_bytes(set), 2 * each);
	load_as(set, b, 2); /* again: the same image */
	assert_int_equal(uw_module_unwind_state(b), UW_MODULE_READY);
	uw_modules_touch(set, c);
	/* b's turn was: it was put behind a, and c behind it */
	d = keep_small(set, each, 3, 0, d);
	assert_dropped(&d, (struct uw_module *[]){a, b}, 2);
	d = keep_small(set, 0, 3, 0, d);
	assert_dropped(&d, (struct uw_module *[]){c}, 1);
	assert_int_equal(uw_modules_bytes(set), 0);
	uw_modules_free(set);
}

/* How far a call goes: a number, what is in use, a failure, another thread. */
static void test_order_ends(void **state)
{
	struct uw_modules *set = set_new();
	struct uw_module *m[3];
	struct dropper d = {0};

	(void)state;
	for (uint8_t i = 0; i < 3; i++) {
		m[i] = get(set, "/m", by_inode(1 + i));
		load_as(set, m[i], 1 + i);
	}
	d = keep_small(set, 0, 3, 2, d);
	assert_dropped(&d, m, 2);
	load_as(set, m[0], 1);
	load_as(set, m[1], 2);
	d.used = m[0]; /* the order is m[2], m[0], m[1] */
	d = keep_small(set, 0, 3, 0, d);
	assert_dropped(&d, &m[2], 1);
	d.used = NULL;
	d.later = true; /* it holds its bytes meanwhile: others are next */
	d = keep_small(set, 0, 3, 1, d);
	assert_dropped(&d, &m[0], 1);
	d = keep_small(set, 0, 3, 1, d);
	assert_dropped(&d, &m[1], 1);
	d.r = -ENOMEM;
	d = keep_small(set, 0, 3, 0, d);
	assert_dropped(&d, &m[0], 1);
	uw_modules_free(set);
}

static void load_symbols(struct uw_module *m, uint8_t first)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_source source;

	image_make(image);
	image[0x210] = first;
	source = (struct uw_source){.fd = memfd_of(image, sizeof(image))};
	assert_int_equal(uw_module_load_symbols(m, &source), 0);
	fd_close(source.fd);
}

/* Each hand-made image keeps its memfd; symbols go with it, those that are not there stay so. */
static void test_order_files(void **state)
{
	struct uw_modules *set = set_new();
	struct uw_module *a = get(set, "/a", by_inode(1)), *b = get(set, "/b", by_inode(2));
	struct dropper d = {0};

	(void)state;
	load_as(set, a, 1);
	load_as(set, b, 2);
	load_symbols(a, 1);
	assert_true(uw_module_want_symbols(b));
	assert_true(uw_module_keeps_file(a) && uw_module_keeps_file(b));
	d = keep_small(set, SIZE_MAX, 1, 0, d);
	assert_dropped(&d, &a, 1);
	assert_false(uw_module_keeps_file(a));
	assert_int_equal(uw_module_symbol_state(a), UW_MODULE_NEW);
	d = keep_small(set, SIZE_MAX, 0, 0, d);
	assert_dropped(&d, &b, 1);
	assert_int_equal(uw_module_symbol_state(b), UW_MODULE_WANTED); /* a loader may be at it */
	uw_modules_free(set);
}

/* While another thread is at work: its halves are not counted and stay. */
static void test_symbols_alone(void **state)
{
	struct uw_modules *set = set_new();
	struct uw_module *a = get(set, "/a", by_inode(1)), *b = get(set, "/b", by_inode(2)),
			 *c = get(set, "/c", by_inode(3));
	struct uw_modules_limit limit = {0};
	struct uw_modules_held held;
	size_t each;

	(void)state;
	load_as(set, c, 3); /* has none */
	load_as(set, a, 1);
	load_as(set, b, 2);
	each = uw_module_bytes(a);
	load_symbols(a, 1);
	load_symbols(b, 2);
	uw_modules_count(set, &held);
	assert_int_equal(held.unwind, 3 * each);
	assert_int_equal(held.files, 3);
	assert_true(held.symbols > 0 && held.symbols % 2 == 0);
	limit.bytes = held.symbols - 1;
	assert_int_equal(uw_modules_keep_small(set, &limit), 0);
	assert_int_equal(uw_module_symbol_state(a), UW_MODULE_NEW);
	assert_int_equal(uw_module_symbol_state(b), UW_MODULE_READY);
	limit.bytes = 0;
	assert_int_equal(uw_modules_keep_small(set, &limit), 0);
	assert_int_equal(uw_module_symbol_state(b), UW_MODULE_NEW);
	uw_modules_count(set, &held);
	assert_int_equal(held.unwind, 3 * each);
	assert_int_equal(held.symbols, 0);
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

/* A year of compilers: modules without references are dropped, others stay. */
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
	get(set, "/tmp/x", by_inode(2)); /* dropped: a new module, without a trace of the old one */
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
		cmocka_unit_test(test_order_ends),
		cmocka_unit_test(test_order_files),
		cmocka_unit_test(test_symbols_alone),
		cmocka_unit_test(test_added),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_many_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
