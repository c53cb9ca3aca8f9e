/* test-deep.c - deep.h: a record joins its sample and no other; old and damaged records; the classes of
 * threads.  deep.c is compiled into this file: the tests give it a ring of their own. */
#include "perf/deep.c"
#undef fail /* cmocka has one too */
#include "tests/unit/cmocka.h"

#include "perf/bpf-parts.h"

enum { SIZE = 1 << 20, TID = 70, COPY = 8192, SP_IN_PAGE = 0x128 };
#define SP (0x7ffc00001000ull + SP_IN_PAGE)
#define TIME 5000000000ull

struct fixture {
	_Atomic uint64_t consumer, producer, words[DEEP_WORDS];
	_Alignas(8) uint8_t data[2 * SIZE];
	struct deep d;
	uint8_t copy[COPY];
};

static struct fixture *fixture_new(void)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_int_equal(bpf_ring_of(&f->consumer, &f->producer, f->data, SIZE, &f->d.ring), 0);
	f->d.words.at = f->words;
	for (size_t i = 0; i < COPY; i++)
		f->copy[i] = (uint8_t)(i * 7 + i / 256);
	return f;
}

static void fixture_free(struct fixture *f)
{
	(void)bpf_ring_free(f->d.ring);
	free(f);
}

/* The program's record of a thread at SP: @pages of its stack. */
static struct deep_record *put(struct fixture *f, uint64_t time, uint32_t tid, uint32_t pages)
{
	uint32_t room = 128 << 10, len = (uint32_t)sizeof(struct deep_record) + room;
	uint8_t *at = f->data + f->producer % SIZE;
	struct deep_record *r = (void *)(at + 8);

	assert_true(f->producer % SIZE + 8 + len <= SIZE);
	memcpy(at, &len, sizeof(len));
	*r = (struct deep_record){
		.time = time, .tid = tid, .sp = SP, .len = pages * DEEP_PAGE, .room = room};
	memcpy((uint8_t *)(r + 1) + SP_IN_PAGE, f->copy, COPY);
	f->producer += 8 + len;
	return r;
}

static struct deep_sample sample_of(const struct fixture *f, uint64_t time)
{
	return (struct deep_sample){
		.tid = TID, .sp = SP, .time = time, .copy = f->copy, .copy_len = COPY};
}

static bool finds(struct fixture *f, const struct deep_sample *s, struct deep_stack *ret)
{
	return deep_find(&f->d, s, ret);
}

static void test_join(void **state)
{
	struct fixture *f = fixture_new();
	struct deep_sample s = sample_of(f, TIME);
	struct deep_stack stack;
	struct deep_counts counts;

	(void)state;
	assert_false(finds(f, &s, &stack));
	(void)put(f, TIME - 1000, TID + 1, 10); /* another thread's */
	(void)put(f, TIME + 2000, TID, 10);	/* the kernel stamped the sample first */
	assert_true(finds(f, &s, &stack));
	assert_int_equal(stack.len, 10 * DEEP_PAGE - SP_IN_PAGE);
	assert_false(stack.full);
	assert_memory_equal(stack.stack, f->copy, COPY);
	assert_false(finds(f, &s, &stack)); /* once */
	deep_put(&f->d, stack.position);
	assert_int_equal(f->consumer, 0); /* the other one is before it */
	assert_int_equal(deep_expire(&f->d, TIME + (DEEP_KEEP_MS + 1) * NSEC_PER_MSEC), 0);
	assert_int_equal(f->consumer, f->producer);
	deep_count(&f->d, &counts);
	assert_int_equal(counts.copied, 1);
	assert_int_equal(counts.unused, 1);
	fixture_free(f);
}

/* Nothing but the sample's own record is taken. */
static void test_others(void **state)
{
	struct fixture *f = fixture_new();
	struct deep_sample s = sample_of(f, TIME), other;
	struct deep_record *r = put(f, TIME, TID, 10);
	struct deep_stack stack;

	(void)state;
	other = s;
	other.sp += 8;
	assert_false(finds(f, &other, &stack));
	other = s;
	other.time += 2 * DEEP_NEAR_MS * NSEC_PER_MSEC;
	assert_false(finds(f, &other, &stack));
	f->copy[COPY - 1] ^= 1; /* another call at the same place */
	assert_false(finds(f, &s, &stack));
	f->copy[COPY - 1] ^= 1;
	r->len = COPY; /* no more than the copy has */
	assert_false(finds(f, &s, &stack));
	r->len = UINT32_MAX; /* damaged */
	assert_false(finds(f, &s, &stack));
	r->len = 8; /* ends below the stack pointer */
	assert_false(finds(f, &s, &stack));
	r->len = 10 * DEEP_PAGE;
	assert_true(finds(f, &s, &stack));
	fixture_free(f);
}

static void test_damaged(void **state)
{
	struct fixture *f = fixture_new();
	struct deep_sample s = sample_of(f, TIME);
	struct deep_stack stack;
	uint32_t len = 8; /* shorter than its head */

	(void)state;
	memcpy(f->data, &len, sizeof(len));
	f->producer = 16;
	assert_false(finds(f, &s, &stack));
	assert_int_equal(f->consumer, 16);
	(void)put(f, TIME, TID, 10);
	f->producer += 4; /* half a header */
	assert_true(finds(f, &s, &stack));
	assert_int_equal(deep_expire(&f->d, TIME), -EBADMSG);
	assert_false(finds(f, &s, &stack));
	fixture_free(f);
}

static uint32_t class_in_words(const struct fixture *f, uint32_t tid)
{
	uint64_t word = f->words[tid % DEEP_THREADS];

	return word >> 32 == tid ? (uint32_t)word : UINT32_MAX;
}

static void test_classes(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	deep_learn(&f->d, TID, 300 << 10, 65528, true);
	assert_int_equal(class_in_words(f, TID), 4);
	deep_learn(&f->d, TID, 900 << 10, 65528, true); /* at once */
	assert_int_equal(class_in_words(f, TID), 7);
	for (int i = 0; i < DEEP_LOWER - 1; i++)
		deep_learn(&f->d, TID, 70 << 10, 65528, true);
	assert_int_equal(class_in_words(f, TID), 7);
	deep_learn(&f->d, TID, 70 << 10, 65528, true); /* slowly */
	assert_int_equal(class_in_words(f, TID), 2);
	deep_learn(&f->d, TID, 127 << 10, 65528, false); /* what it had was too little */
	assert_int_equal(class_in_words(f, TID), 3);
	/* another thread at the same place, all of whose stacks fit their copies */
	for (int i = 0; i < DEEP_CALM; i++) {
		assert_int_equal(class_in_words(f, TID + DEEP_THREADS), UINT32_MAX);
		deep_learn(&f->d, TID + DEEP_THREADS, 1000, 65528, true);
	}
	assert_int_equal(class_in_words(f, TID + DEEP_THREADS), 0);
	for (int i = 0; i < DEEP_CALM; i++) /* nearly full: the next may be deeper */
		deep_learn(&f->d, TID + 1, 60000, 65528, true);
	assert_true(class_in_words(f, TID + 1) > 0);
	deep_learn(&f->d, TID + DEEP_THREADS, 66000, 65528, false);
	assert_true(class_in_words(f, TID + DEEP_THREADS) > 0);
	fixture_free(f);
}

/* A record that its class cut off raises the class before its stack is unwound. */
static void test_outgrown(void **state)
{
	struct fixture *f = fixture_new();
	struct deep_sample s = sample_of(f, TIME);
	struct deep_stack stack;

	(void)state;
	(void)put(f, TIME, TID, (128 << 10) / DEEP_PAGE);
	assert_true(finds(f, &s, &stack));
	assert_true(stack.full);
	assert_int_equal(class_in_words(f, TID), 3);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_join),	 cmocka_unit_test(test_others),
		cmocka_unit_test(test_damaged),	 cmocka_unit_test(test_classes),
		cmocka_unit_test(test_outgrown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
