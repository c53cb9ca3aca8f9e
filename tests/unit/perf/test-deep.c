/* test-deep.c - deep stacks of at-sample.h: a record joins its sample and no other; old and damaged records; the classes of
 * threads; and, where the kernel permits it, the program copies this stack.  at-sample.c is compiled into this file: the tests give
 * it a ring of their own. */
#include "perf/at-sample.c"
#undef fail /* cmocka has one too */
#include "tests/unit/cmocka.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf/uapi.h"

enum { SIZE = 1 << 20, NEAR_MS = 5, TID = 70, COPY = 8192, SP_IN_PAGE = 0x128 };
#define SP (0x7ffc00001000ull + SP_IN_PAGE)
#define TIME 5000000000ull

struct fixture {
	_Atomic uint64_t consumer, producer;
	struct deep_table table;
	_Alignas(8) uint8_t data[2 * SIZE];
	struct deep d;
	uint8_t copy[COPY];
};

static struct fixture *fixture_new(void)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_int_equal(bpf_ring_of(&f->consumer, &f->producer, f->data, SIZE, &f->d.records.ring),
			 0);
	f->d.records.clock = CLOCK_MONOTONIC;
	f->d.table = &f->table;
	f->d.most = ARRAY_SIZE(deep_bytes) - 1;
	for (size_t i = 0; i < COPY; i++)
		f->copy[i] = (uint8_t)(i * 7 + i / 256);
	return f;
}

static void fixture_free(struct fixture *f)
{
	(void)bpf_ring_free(f->d.records.ring);
	free(f);
}

/* The program's record of a thread at SP: @pages of its stack. */
static struct at_sample_record *put(struct fixture *f, uint64_t time, uint32_t tid, uint32_t pages)
{
	uint32_t room = 128 << 10, len = (uint32_t)sizeof(struct at_sample_record) + room;
	uint8_t *at = f->data + f->producer % SIZE;
	struct at_sample_record *r = (void *)(at + 8);

	assert_true(f->producer % SIZE + 8 + len <= SIZE);
	memcpy(at, &len, sizeof(len));
	*r = (struct at_sample_record){
		.time = time, .tid = tid, .sp = SP, .len = pages * DEEP_PAGE};
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

/* Many more records than wait at a time; the first one is taken last. */
static void test_many(void **state)
{
	enum { N = 3 * RECORDS_WAITING, BYTES = 64 };
	struct fixture *f = fixture_new();
	const struct sample_key last = {.tid = 1, .sp = SP, .time = TIME};
	size_t at = 0;

	(void)state;
	for (uint32_t i = 1; i <= N; i++) {
		const struct sample_key key = {.tid = i, .sp = SP, .time = TIME};
		uint8_t *to = f->data + f->producer % SIZE;
		const uint32_t len = BYTES - 8;

		memcpy(to, &len, sizeof(len));
		*(struct at_sample_record *)(void *)(to + 8) =
			(struct at_sample_record){.time = TIME, .tid = i, .sp = SP};
		f->producer += BYTES;
		at = 0;
		assert_non_null(records_find(&f->d.records, &key, &at));
		assert_int_equal(at, i > 1);
		if (i > 1)
			bpf_ring_put(f->d.records.ring, records_take(&f->d.records, at));
	}
	assert_int_equal(f->d.records.n_waiting, 1);
	at = 0;
	assert_non_null(records_find(&f->d.records, &last, &at));
	bpf_ring_put(f->d.records.ring, records_take(&f->d.records, at));
	assert_int_equal(f->consumer, f->producer);
	fixture_free(f);
}

/* Nothing but the sample's own record is taken. */
static void test_others(void **state)
{
	struct fixture *f = fixture_new();
	struct deep_sample s = sample_of(f, TIME), other;
	struct at_sample_record *r = put(f, TIME, TID, 10);
	struct deep_stack stack;

	(void)state;
	other = s;
	other.sp += 8;
	assert_false(finds(f, &other, &stack));
	other = s;
	other.time += 2 * NEAR_MS * NSEC_PER_MSEC;
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

static uint32_t class_in_table(const struct fixture *f, uint32_t tid)
{
	uint64_t word = f->table.threads[tid % DEEP_THREADS];

	return word >> 32 == tid ? (uint32_t)word : UINT32_MAX;
}

static void test_classes(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	deep_learn(&f->d, TID, 300 << 10, 65528, true);
	assert_int_equal(class_in_table(f, TID), 4);
	deep_learn(&f->d, TID, 900 << 10, 65528, true); /* at once */
	assert_int_equal(class_in_table(f, TID), 7);
	for (int i = 0; i < DEEP_LOWER - 1; i++)
		deep_learn(&f->d, TID, 70 << 10, 65528, true);
	assert_int_equal(class_in_table(f, TID), 7);
	deep_learn(&f->d, TID, 70 << 10, 65528, true); /* slowly */
	assert_int_equal(class_in_table(f, TID), 2);
	deep_learn(&f->d, TID, 127 << 10, 65528, false); /* what it had was too little */
	assert_int_equal(class_in_table(f, TID), 3);
	/* another thread at the same place, with stacks that all fit their copies */
	for (int i = 0; i < DEEP_CALM; i++) {
		assert_int_equal(class_in_table(f, TID + DEEP_THREADS), UINT32_MAX);
		deep_learn(&f->d, TID + DEEP_THREADS, 1000, 65528, true);
	}
	assert_int_equal(class_in_table(f, TID + DEEP_THREADS), 0);
	for (int i = 0; i < DEEP_CALM; i++) /* nearly full: the next may be deeper */
		deep_learn(&f->d, TID + 1, 60000, 65528, true);
	assert_true(class_in_table(f, TID + 1) > 0);
	deep_learn(&f->d, TID + DEEP_THREADS, 66000, 65528, false);
	assert_true(class_in_table(f, TID + DEEP_THREADS) > 0);
	fixture_free(f);
}

/* A stack that fits its copy, among deeper ones: the next may be deep again. */
static void test_few_calm(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	deep_learn(&f->d, TID, 900 << 10, 65528, true);
	for (int i = 0; i < DEEP_LOWER; i++) {
		deep_learn(&f->d, TID, 300 << 10, 65528, true);
		assert_true(class_in_table(f, TID) >= 4);
		if (i % 4 == 0)
			deep_learn(&f->d, TID, 1000, 65528, true);
		assert_true(class_in_table(f, TID) >= 4);
	}
	assert_int_equal(class_in_table(f, TID), 4);
	fixture_free(f);
}

/* The smaller class is enough for each of them, not just for the last. */
static void test_lower(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	deep_learn(&f->d, TID, 900 << 10, 65528, true);
	deep_learn(&f->d, TID, 300 << 10, 65528, true);
	for (int i = 0; i < DEEP_LOWER - 1; i++)
		deep_learn(&f->d, TID, 70 << 10, 65528, true);
	assert_int_equal(class_in_table(f, TID), 4);
	fixture_free(f);
}

/* A record that its class cut off raises the class before its stack is unwound. */
static void test_outgrown(void **state)
{
	struct fixture *f = fixture_new();
	struct deep_sample s = sample_of(f, TIME);
	struct deep_stack stack;

	(void)state;
	put(f, TIME, TID, (128 << 10) / DEEP_PAGE)->goes_on = 1;
	assert_true(finds(f, &s, &stack));
	assert_true(stack.full);
	assert_int_equal(class_in_table(f, TID), 3);
	fixture_free(f);
}

/* @n copies of 64 KiB that had no time for more. */
static void copy_slowly(struct fixture *f, int n)
{
	struct deep_sample s = sample_of(f, TIME);
	struct deep_stack stack;

	while (n-- > 0) {
		put(f, TIME, TID, (64 << 10) / DEEP_PAGE)->goes_on = 1;
		assert_true(finds(f, &s, &stack));
		assert_true(stack.full);
		deep_put(&f->d, stack.position);
	}
}

/* One interrupt that took long is no measure of the next. */
static void test_slow_once(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	deep_learn(&f->d, TID, 900 << 10, 65528, true);
	copy_slowly(f, 1);
	assert_int_equal(class_in_table(f, TID), 7);
	f->d.copied += DEEP_SLOW;
	copy_slowly(f, 1);
	assert_int_equal(class_in_table(f, TID), 7);
	copy_slowly(f, 1);
	assert_int_equal(class_in_table(f, TID), 2);
	fixture_free(f);
}

/* Where time was short at samples, the ring has no more room for stacks than was used, until a copy fills its class again. */
static void test_short_of_time(void **state)
{
	struct fixture *f = fixture_new();
	struct deep_sample s = sample_of(f, TIME);
	struct deep_stack stack;

	(void)state;
	deep_learn(&f->d, TID, 900 << 10, 65528, true);
	assert_int_equal(class_in_table(f, TID), 7);
	copy_slowly(f, 2);
	assert_int_equal(class_in_table(f, TID), 2);
	deep_learn(&f->d, TID, 900 << 10, 65528, false);
	assert_int_equal(class_in_table(f, TID), 2);
	put(f, TIME, TID, (128 << 10) / DEEP_PAGE)->goes_on = 1;
	assert_true(finds(f, &s, &stack));
	assert_int_equal(class_in_table(f, TID), 3);
	deep_learn(&f->d, TID, 900 << 10, 65528, false);
	assert_int_equal(class_in_table(f, TID), 3);
	fixture_free(f);
}

/* ---- the program ---- */

enum { DEPTH = 96 << 10 };

static int open_clock(int program, bool of_kernel)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = 1000000,
		.exclude_kernel = !of_kernel,
		.exclude_user = of_kernel,
		.inherit = 1,
	};
	int fd = perf_event_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		fail_msg("perf_event_open: %s", strerror(errno));
	assert_int_equal(ioctl(fd, PERF_EVENT_IOC_SET_BPF, program), 0);
	return fd;
}

/* NULL: the kernel does not permit it. */
static struct at_sample *program_new(bool later)
{
	static struct features features = {.has[FEATURE_BPF] = true};
	const struct at_sample_options options = {
		.features = &features, .deep = true, .python = true, .later = later};
	struct at_sample *at = NULL;
	char why[256] = "";
	int r = bpf_try();

	if (r >= 0)
		assert_int_equal(at_sample_new(&options, &at, why, sizeof(why)), 0);
	if (!at)
		print_message("no program at samples here: %s\n", r < 0 ? strerror(-r) : why);
	else
		deep_set_room(at->deep, 32 << 10); /* four times as much at first */
	return at;
}

/* 20 ms of CPU time of this thread. */
static __attribute__((noinline)) void spin(bool in_kernel)
{
	uint64_t until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + 20 * NSEC_PER_MSEC;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		for (int i = 0; in_kernel && i < 100; i++)
			(void)syscall(SYS_getppid);
}

/* Without time for more than one piece. */
static void test_program_one_piece(void **state)
{
	struct at_sample *at = program_new(false);
	volatile uint8_t pattern[DEPTH];
	const struct at_sample_record *head = NULL;
	int event;

	(void)state;
	if (!at)
		skip();
	for (size_t i = 0; i < DEPTH; i++)
		pattern[i] = 1;
	deep_set_rate(at->deep, NSEC_PER_SEC);
	event = open_clock(at->program_fd, false);
	for (int i = 0; i < 200 && !at->deep->records.n_waiting; i++) {
		spin(false);
		records_expire(&at->deep->records, 0);
	}
	(void)fd_close(event);
	assert_true(at->deep->records.n_waiting > 0);
	head = waiting_at(&at->deep->records, 0)->data;
	assert_int_equal(head->len, 64 << 10);
	assert_true(head->goes_on && pattern[0]);
	(void)at_sample_free(at);
}

/* Counts the records of @tid, and checks that each has @pattern where it stands on the stack. */
static size_t check_records(struct deep *d, uint32_t tid, const uint8_t *pattern)
{
	size_t n = 0;

	records_expire(&d->records, 0);
	for (size_t i = 0; i < d->records.n_waiting; i++) {
		const struct at_sample_record *head = waiting_at(&d->records, i)->data;
		uint64_t first = head->sp & -(uint64_t)DEEP_PAGE;

		if (head->tid != tid)
			continue;
		assert_true(head->sp < (uintptr_t)pattern);
		assert_true((uintptr_t)pattern + DEPTH <= first + head->len);
		assert_memory_equal((const uint8_t *)(head + 1) + ((uintptr_t)pattern - first),
				    pattern, DEPTH);
		n++;
	}
	return n;
}

static void await_program(struct at_sample *at, int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	int r = AT_SAMPLE_WAITS;

	assert_true(fd >= 0);
	while (r == AT_SAMPLE_WAITS) {
		assert_int_equal(poll(&pfd, 1, 10000), 1);
		r = at_sample_answer(at);
	}
	assert_int_equal(r, 0);
}

/* The part for stacks is loaded by the helper process, and runs in place of the jump. */
static void load_it(struct at_sample *at)
{
	int fd;

	assert_int_equal(deep_fd(at->deep), -1);
	assert_int_equal(at_sample_want(at, 0), -1);
	fd = at_sample_want(at, AT_SAMPLE_DEEP);
	assert_int_equal(at_sample_want(at, AT_SAMPLE_DEEP), -1); /* once */
	await_program(at, fd);
	assert_true(deep_fd(at->deep) >= 0);
	assert_false(python_stacks_run(at->python));
	assert_int_equal(at_sample_want(at, AT_SAMPLE_DEEP), -1);
}

/* All parts take its place: the copies go on in the same ring. */
static void load_all(struct at_sample *at)
{
	const struct bpf_ring *ring = at->deep->records.ring;
	int fd = at_sample_want(at, AT_SAMPLE_PYTHON);

	assert_int_equal(at_sample_want(at, AT_SAMPLE_DEEP), -1);
	await_program(at, fd);
	assert_ptr_equal(at->deep->records.ring, ring);
	assert_true(python_stacks_run(at->python));
	assert_int_equal(at_sample_want(at, AT_SAMPLE_DEEP | AT_SAMPLE_PYTHON), -1);
}

/* Python is wanted while the part for stacks is being loaded. */
static void test_wanted_meanwhile(void **state)
{
	struct at_sample *at = program_new(true);
	int fd;

	(void)state;
	if (!at)
		skip();
	fd = at_sample_want(at, AT_SAMPLE_DEEP);
	assert_int_equal(at_sample_want(at, AT_SAMPLE_PYTHON), -1);
	await_program(at, fd);
	assert_false(python_stacks_run(at->python));
	await_program(at, at_sample_want(at, 0));
	assert_true(python_stacks_run(at->python));
	(void)at_sample_free(at);
}

/* Records of this thread, and, if it is not 0, of the thread @other.  What has been counted makes room in the ring for the next. */
static void await_records(struct at_sample *at, pid_t other, const uint8_t *pattern, bool of_kernel)
{
	size_t own = 0, others = 0;

	for (int i = 0; i < 200 && !(own && (others || !other)); i++) {
		spin(of_kernel);
		own += check_records(at->deep, (uint32_t)syscall(SYS_gettid), pattern);
		others += check_records(at->deep, (uint32_t)other, pattern);
		drop(&at->deep->records, at->deep->records.n_waiting);
	}
	assert_true(own > 0);
	assert_true(others > 0 || !other);
}

static void check_program(bool of_kernel, bool later)
{
	struct at_sample *at = program_new(later);
	uint8_t pattern[DEPTH];
	int event, status;
	pid_t child;

	if (!at)
		skip();
	for (size_t i = 0; i < DEPTH; i++)
		pattern[i] = (uint8_t)(i * 11 + i / 251);
	event = open_clock(at->program_fd, of_kernel);
	child = fork(); /* it inherits the event; the ring is not in it */
	if (child == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (pattern[1] == 11)
			spin(of_kernel);
		_exit(1);
	}
	if (later)
		load_it(at);
	await_records(at, child, pattern, of_kernel);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	if (later) {
		load_all(at);
		drop(&at->deep->records, at->deep->records.n_waiting);
		await_records(at, 0, pattern, of_kernel);
	}
	(void)fd_close(event);
	(void)at_sample_free(at);
}

static void test_program(void **state)
{
	(void)state;
	check_program(false, false);
}

/* Events that a child has inherited before run it, too. */
static void test_program_later(void **state)
{
	(void)state;
	check_program(false, true);
}

/* Interrupted in a system call: the stack of its user side. */
static void test_program_in_kernel(void **state)
{
	(void)state;
	check_program(true, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_few_calm),
		cmocka_unit_test(test_lower),
		cmocka_unit_test(test_outgrown),
		cmocka_unit_test(test_slow_once),
		cmocka_unit_test(test_short_of_time),
		cmocka_unit_test(test_program_one_piece),
		cmocka_unit_test(test_program),
		cmocka_unit_test(test_program_later),
		cmocka_unit_test(test_program_in_kernel),
		cmocka_unit_test(test_wanted_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
