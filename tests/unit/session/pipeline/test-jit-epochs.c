/* test-jit-epochs.c - addresses of JIT code that several functions have, one after another. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include <time.h>

#include "base/bytes.h"
#include "session/pipeline/jit-epochs.h"
#include "trace/writer.h"

static void put32(struct buffer *b, uint32_t v)
{
	buffer_append(b, &v, sizeof(v));
}

static void put64(struct buffer *b, uint64_t v)
{
	buffer_append(b, &v, sizeof(v));
}

static void put_load(struct buffer *b, uint64_t time, uint64_t address, const char *name)
{
	put32(b, 0);
	put32(b, (uint32_t)(16 + 40 + strlen(name) + 1));
	put64(b, time);
	put64(b, 0);
	put64(b, address);
	put64(b, address);
	put64(b, 0x20);
	put64(b, 1);
	buffer_append(b, name, strlen(name) + 1);
}

static uint64_t key_in(struct jit_epochs *epochs, const struct uw_module *m, uint64_t address,
		       uint64_t time)
{
	uint64_t k;

	assert_int_equal(jit_epochs_key(epochs, m, address, time, &k), 0);
	return k;
}

/* Of code without a dump. */
static uint64_t key(struct jit_epochs *epochs, uint64_t address, uint64_t time)
{
	struct uw_module *m;
	uint64_t k;

	assert_int_equal(uw_module_new(UW_MODULE_JIT, "none", NULL, &m), 0);
	k = key_in(epochs, m, address, time);
	uw_module_unref(m);
	return k;
}

static void expect_name(const struct jit_epochs *epochs, const struct uw_module *m, uint64_t key,
			const char *name)
{
	struct uw_symbol s;

	assert_true(uw_module_symbol_at(m, key & JIT_ADDRESS, jit_epochs_time(epochs, key), &s));
	assert_string_equal(s.name, name);
}

static void test_reuse(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct jit_epochs epochs = {0};
	struct uw_module *m;
	uint64_t first, second, other;

	(void)state;
	put32(&b, 0x4a695444);
	put32(&b, 1);
	put32(&b, 12);
	put_load(&b, 100, 0x1000, "first");
	put_load(&b, 100, 0x2000, "other");
	m = jit_module_of("jit-1.dump", b.data, b.len);
	first = key_in(&epochs, m, 0x1010, 110);
	other = key_in(&epochs, m, 0x2010, 111);
	assert_int_equal(first, 0x1010);
	assert_int_equal(key_in(&epochs, m, 0x1010 | WRITER_GUESSED, 120), 0x1010 | WRITER_GUESSED);
	assert_int_equal(jit_epochs_time(&epochs, first), 110);
	assert_int_equal(jit_epochs_time(&epochs, first | WRITER_GUESSED), 110);
	assert_int_equal(jit_epochs_time(&epochs, 0x1018), UINT64_MAX);
	assert_int_equal(jit_epochs_begin(&epochs, m), 0);
	assert_int_equal(key_in(&epochs, m, 0x1010, 130), first);
	uw_module_unref(m);

	/* The dump has more than samples that wait: those from before the change keep their key. */
	put_load(&b, 200, 0x1000, "second");
	m = jit_module_of("jit-1.dump", b.data, b.len);
	assert_int_equal(key_in(&epochs, m, 0x1010, 199), first);
	second = key_in(&epochs, m, 0x1010, 210);
	assert_int_not_equal(second, first);
	assert_int_equal(second & JIT_ADDRESS, 0x1010);
	assert_int_equal(key_in(&epochs, m, 0x1010 | WRITER_GUESSED, 220), second | WRITER_GUESSED);
	assert_int_equal(jit_epochs_time(&epochs, first), 110);
	assert_int_equal(jit_epochs_time(&epochs, second), 210);
	assert_int_equal(key_in(&epochs, m, 0x2010, 230), other);
	/* A sample that was parked. */
	expect_name(&epochs, m, key_in(&epochs, m, 0x1010, 150), "first");
	second = key_in(&epochs, m, 0x1010, 240);
	expect_name(&epochs, m, second, "second");
	assert_int_equal(jit_epochs_begin(&epochs, m), 0);
	uw_module_unref(m);
	/* The same function at the same place is no other code. */
	put_load(&b, 300, 0x1000, "second");
	m = jit_module_of("jit-1.dump", b.data, b.len);
	assert_int_equal(key_in(&epochs, m, 0x1010, 310), second);
	uw_module_unref(m);
	jit_epochs_deinit(&epochs);
}

/* Caches hold from one change to the next. */
static void test_changes(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct jit_epochs epochs = {0};
	struct uw_module *m;

	(void)state;
	put32(&b, 0x4a695444);
	put32(&b, 1);
	put32(&b, 12);
	put_load(&b, 100, 0x1000, "first");
	put_load(&b, 150, 0x2000, "alone");
	put_load(&b, 200, 0x1010, "second");
	put_load(&b, 300, 0x1000, "third");
	m = jit_module_of("jit-1.dump", b.data, b.len);
	assert_true(jit_epochs_has_changed(&epochs, m, 110));
	assert_false(jit_epochs_has_changed(&epochs, m, 160));
	assert_false(jit_epochs_has_changed(&epochs, m, 199));
	assert_true(jit_epochs_has_changed(&epochs, m, 200));
	assert_true(jit_epochs_has_changed(&epochs, m, 199));
	assert_true(jit_epochs_has_changed(&epochs, m, 400));
	assert_false(jit_epochs_has_changed(&epochs, m, 300));
	assert_false(jit_epochs_has_changed(&epochs, m, UINT64_MAX));
	assert_true(jit_epochs_has_changed(&epochs, m, 1));
	jit_epochs_read(&epochs, 10, false);
	assert_false(jit_epochs_has_changed(&epochs, m, 2));
	jit_epochs_read(&epochs, 20, true);
	assert_true(jit_epochs_has_changed(&epochs, m, 2));
	uw_module_unref(m);
	jit_epochs_deinit(&epochs);
}

enum { LAST_EPOCH = (1 << 15) - 1 }; /* a number has 15 bits */

/* An address without a name, once a second: what is made known later may be later code. */
static void test_unnamed(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct jit_epochs epochs = {0};
	struct uw_module *m;
	uint64_t before = key(&epochs, 0x1010, 110), now;

	(void)state;
	put32(&b, 0x4a695444);
	put32(&b, 1);
	put32(&b, 12);
	put_load(&b, 100, 0x2000, "other");
	m = jit_module_of("jit-1.dump", b.data, b.len);
	for (uint64_t i = 1; i < 100; i++) {
		int begun;

		/* The numbers of epochs end: the last one but two is the 50th of the test. */
		if (i == 50) {
			assert_int_equal(table_put(&epochs.current, 0x1010, LAST_EPOCH - 2), 0);
			before = key(&epochs, 0x1010, 110 + i);
		}
		begun = jit_epochs_begin(&epochs, m);
		now = key(&epochs, 0x1010, 110 + i);
		assert_int_equal(begun, now != before);
		assert_int_equal(begun, i < 52);
		assert_int_equal(now & JIT_ADDRESS, 0x1010);
		assert_false(now & WRITER_GUESSED);
		before = now;
	}
	/* Not sampled since: no epoch. */
	jit_epochs_deinit(&epochs);
	epochs = (struct jit_epochs){0};
	(void)key(&epochs, 0x1010, 110);
	assert_int_equal(jit_epochs_begin(&epochs, m), 1);
	assert_int_equal(jit_epochs_begin(&epochs, m), 0);
	/* What is not an address of a program stays. */
	assert_int_equal(key(&epochs, 0xffff800000000000 & ~WRITER_GUESSED, 1),
			 0xffff800000000000 & ~WRITER_GUESSED);
	uw_module_unref(m);
	jit_epochs_deinit(&epochs);
}

/* A dump of an attacker: the number of frames has a bound, and one reading looks at a part of them. */
static void test_bounds(void **state)
{
	enum { FRAMES = 1 << 16, PART = 1 << 14 };
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct jit_epochs epochs = {0};
	struct uw_module *m;

	(void)state;
	put32(&b, 0x4a695444);
	put32(&b, 1);
	put32(&b, 12);
	put_load(&b, 100, 0x10, "other");
	m = jit_module_of("jit-1.dump", b.data, b.len);
	for (uint64_t i = 0; i < FRAMES + 1000; i++)
		(void)key(&epochs, 0x1000 + i, 110);
	assert_int_equal(epochs.first.n_used, FRAMES);
	for (size_t i = 1; i <= 4; i++) { /* each frame once */
		assert_int_equal(jit_epochs_begin(&epochs, m), 1);
		assert_int_equal(epochs.current.n_used, i * PART);
	}
	assert_int_equal(jit_epochs_begin(&epochs, m), 0);
	uw_module_unref(m);
	jit_epochs_deinit(&epochs);
}

/* While the reading of a dump is late, each slice of time has epochs of its own. */
static void test_slices(void **state)
{
	struct jit_epochs epochs = {0};
	uint64_t first = key(&epochs, 0x1010, 110), second, third;

	(void)state;
	jit_epochs_read(&epochs, 120, true);
	assert_false(jit_epochs_slice(&epochs, 100, 50)); /* read after the sample */
	assert_false(jit_epochs_slice(&epochs, 170, 50));
	assert_false(jit_epochs_slice(&epochs, UINT64_MAX, 50)); /* of a clock that is not known */
	assert_int_equal(key(&epochs, 0x1010, 170), first);
	assert_true(jit_epochs_slice(&epochs, 171, 50));
	second = key(&epochs, 0x1010, 172);
	assert_int_equal(second & JIT_ADDRESS, 0x1010);
	assert_int_not_equal(second, first);
	assert_int_equal(jit_epochs_time(&epochs, first), 110);
	assert_int_equal(jit_epochs_time(&epochs, second), 172);
	assert_int_equal(key(&epochs, 0x1010 | WRITER_GUESSED, 173), second | WRITER_GUESSED);
	assert_int_equal(key(&epochs, 0x2010, 174), 0x2010); /* new in the slice */
	assert_false(jit_epochs_slice(&epochs, 221, 50));
	assert_int_equal(key(&epochs, 0x1010, 221), second);
	assert_true(jit_epochs_slice(&epochs, 222, 50));
	third = key(&epochs, 0x1010, 223);
	assert_int_not_equal(third, second);
	assert_int_not_equal(third, first);
	assert_int_not_equal(key(&epochs, 0x2010, 224), 0x2010);
	/* It is read in time again. */
	jit_epochs_read(&epochs, 300, true);
	jit_epochs_read(&epochs, 290, true);
	assert_false(jit_epochs_slice(&epochs, 350, 50));
	assert_int_equal(key(&epochs, 0x1010, 350), third);
	jit_epochs_deinit(&epochs);
}

/* What was named too early is named again, once. */
static void test_settle(void **state)
{
	struct jit_epochs epochs = {0};
	uint64_t k;

	(void)state;
	jit_epochs_read(&epochs, 100, true);
	assert_int_equal(jit_epochs_note(&epochs, key(&epochs, 0x1010, 90)), 0);
	assert_false(jit_epochs_settle(&epochs, &k));
	assert_int_equal(jit_epochs_note(&epochs, key(&epochs, 0x2010 | WRITER_GUESSED, 150)), 0);
	assert_int_equal(jit_epochs_note(&epochs, key(&epochs, 0x3010, 250)), 0);
	assert_int_equal(jit_epochs_note(&epochs, 0x4010), 0); /* never sampled */
	assert_false(jit_epochs_settle(&epochs, &k));
	jit_epochs_read(&epochs, 200, true);
	assert_true(jit_epochs_settle(&epochs, &k));
	assert_int_equal(k, 0x2010);
	assert_false(jit_epochs_settle(&epochs, &k));
	jit_epochs_read(&epochs, 250, true);
	assert_true(jit_epochs_settle(&epochs, &k));
	assert_int_equal(k, 0x3010);
	assert_false(jit_epochs_settle(&epochs, &k));
	/* Its list has a bound, and so have slices. */
	for (uint64_t i = 0; i < 1 << 18; i++)
		assert_int_equal(jit_epochs_note(&epochs, key(&epochs, 0x5000 + i % 8, 300)), 0);
	assert_true(epochs.n_unsure <= 1 << 17);
	for (uint64_t i = 0; i < 1 << 15; i++)
		(void)key(&epochs, 0x100000 + i, 300);
	assert_false(jit_epochs_slice(&epochs, 1000, 50));
	jit_epochs_deinit(&epochs);
}

static void test_clocks(void **state)
{
	uint64_t now = clock_ns(CLOCK_BOOTTIME), monotonic;

	(void)state;
	assert_int_equal(jit_epochs_monotonic(CLOCK_MONOTONIC, 77), 77);
	assert_int_equal(jit_epochs_monotonic(CLOCK_REALTIME, 77), UINT64_MAX);
	assert_int_equal(jit_epochs_monotonic(-1, 77), UINT64_MAX);
	monotonic = jit_epochs_monotonic(CLOCK_BOOTTIME, now);
	assert_true(monotonic <= clock_ns(CLOCK_MONOTONIC));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reuse),	cmocka_unit_test(test_changes),
		cmocka_unit_test(test_unnamed), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_slices),	cmocka_unit_test(test_settle),
		cmocka_unit_test(test_clocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
