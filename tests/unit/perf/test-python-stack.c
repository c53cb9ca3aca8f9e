/* test-python-stack.c - Python frames of at-sample.h: a record joins its sample and no other, damaged records; and, where the kernel permits
 * it, the program copies frames that this thread has made, in the layout of each version.  at-sample.c is compiled into this
 * file: the tests give it a ring of their own. */
#include "perf/at-sample.c"
#undef fail /* cmocka has one too */
#include "tests/unit/cmocka.h"

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/python-sign.h"
#include "perf/uapi.h"

enum { SIZE = 1 << 16, TID = 70, FRAME_BYTES = 8 * PYTHON_STACK_WORDS, FRAME_SIZE = 80 };
#define SP 0x7ffc00001128ull
#define TIME 5000000000ull

struct fixture {
	_Atomic uint64_t consumer, producer;
	struct python_table table;
	_Alignas(8) uint8_t data[2 * SIZE];
	struct python_stacks s;
};

static struct fixture *fixture_new(void)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_int_equal(bpf_ring_of(&f->consumer, &f->producer, f->data, SIZE, &f->s.records.ring),
			 0);
	f->s.records.clock = CLOCK_MONOTONIC;
	f->s.table = &f->table;
	return f;
}

static void fixture_free(struct fixture *f)
{
	(void)bpf_ring_free(f->s.records.ring);
	free(f);
}

static struct at_sample_record *put(struct fixture *f, uint64_t time, uint32_t tid, uint32_t frames)
{
	uint32_t len = (uint32_t)sizeof(struct at_sample_record) + 10 * FRAME_BYTES;
	uint8_t *at = f->data + f->producer % SIZE;
	struct at_sample_record *r = (void *)(at + 8);

	memcpy(at, &len, sizeof(len));
	*r = (struct at_sample_record){
		.time = time, .sp = SP, .tid = tid, .len = frames * FRAME_BYTES};
	*(uint64_t *)(r + 1) = time;
	f->producer += 8 + len;
	return r;
}

static void test_join(void **state)
{
	struct fixture *f = fixture_new();
	struct python_stack stack;

	(void)state;
	assert_false(python_stacks_find(&f->s, TID, SP, TIME, &stack));
	(void)put(f, TIME - 1000, TID + 1, 2);
	(void)put(f, TIME + 2000, TID, 3); /* the kernel stamped the sample first */
	(void)put(f, TIME + 9000000, TID, 4);
	assert_false(python_stacks_find(&f->s, TID, SP + 8, TIME, &stack));
	assert_true(python_stacks_find(&f->s, TID, SP, TIME, &stack));
	assert_int_equal(stack.n, 3);
	assert_int_equal(stack.frames[0], TIME + 2000);
	assert_false(python_stacks_find(&f->s, TID, SP, TIME, &stack)); /* once */
	python_stacks_put(&f->s, stack.position);
	assert_int_equal(f->consumer, 0); /* the other one is before it */
	python_stacks_expire(&f->s, TIME + (PYTHON_STACK_KEEP_MS + 20) * NSEC_PER_MSEC);
	assert_int_equal(f->consumer, f->producer);
	fixture_free(f);
}

/* The sample before was dropped, and its record waits: a thread in a loop has the same stack pointer. */
static void test_nearest(void **state)
{
	struct fixture *f = fixture_new();
	struct python_stack stack;

	(void)state;
	(void)put(f, TIME - 1000000, TID, 2);
	(void)put(f, TIME - 2000, TID, 3);
	(void)put(f, TIME + 1000000, TID, 4);
	assert_true(python_stacks_find(&f->s, TID, SP, TIME, &stack));
	assert_int_equal(stack.n, 3);
	assert_true(python_stacks_find(&f->s, TID, SP, TIME + 1000000, &stack));
	assert_int_equal(stack.n, 4);
	fixture_free(f);
}

static void test_damaged(void **state)
{
	struct fixture *f = fixture_new();
	struct at_sample_record *r;
	struct python_stack stack;
	uint32_t len = 8; /* shorter than its head */

	(void)state;
	memcpy(f->data, &len, sizeof(len));
	f->producer = 16;
	assert_false(python_stacks_find(&f->s, TID, SP, TIME, &stack));
	assert_int_equal(f->consumer, 16);
	r = put(f, TIME, TID, 10);
	r->len = 11 * FRAME_BYTES; /* more than there are */
	assert_false(python_stacks_find(&f->s, TID, SP, TIME, &stack));
	r->len = 8;
	assert_false(python_stacks_find(&f->s, TID, SP, TIME, &stack));
	r->len = 10 * FRAME_BYTES;
	assert_true(python_stacks_find(&f->s, TID, SP, TIME, &stack));
	assert_int_equal(stack.n, 10);
	f->producer += 4; /* half a header */
	assert_false(python_stacks_find(&f->s, TID, SP, TIME, &stack));
	assert_true(f->s.records.broken);
	fixture_free(f);
}

/* ---- the program ---- */

enum { FRAMES = 3, STATES = 3, CODE_SIZE = 208, NAME_SIZE = 128, CODE_TYPE = 0x7000 };

/* A Python of this process: its second thread state is this thread's. */
struct interpreter {
	uint64_t runtime[2]; /* the second: main */
	uint64_t head[4];    /* the third: threads.head */
	struct {
		uint64_t next, native, frame;
	} states[STATES];
	uint64_t cframe[2];
	_Alignas(8) uint8_t frames[FRAMES][FRAME_SIZE];
	_Alignas(8) uint8_t codes[FRAMES][CODE_SIZE];
	_Alignas(8) uint8_t names[FRAMES][NAME_SIZE];
};

static void set(uint8_t *at, uint64_t value)
{
	memcpy(at, &value, sizeof(value));
}

static uint64_t code_of(const struct interpreter *i, size_t frame)
{
	return (uintptr_t)i->codes[frame];
}

/* The last one is the interpreter's own.  Returns the sign of the program, from what was written. */
static uint64_t make_code(struct interpreter *i, size_t k, unsigned minor)
{
	static const char *const names[FRAMES] = {"main", "Class.method_of_it", "eightchr"};
	const char *name = names[k];
	uint64_t length = strlen(name);
	struct python_content c = {
		.units = 30 + k, .line = 7 + (uint32_t)k, .filename = 0x5000, .length = length};

	set(i->names[k] + 16, length);
	set(i->names[k] + 24, UINT64_MAX); /* no hash yet */
	i->names[k][32] = 1 << 2 | 1 << 5 | 1 << 6;
	memcpy(i->names[k] + (minor == 11 ? 48 : 40), name, length);
	memset(i->names[k] + (minor == 11 ? 48 : 40) + length, 0xee, 8); /* behind it */
	if (k == FRAMES - 1)
		c.filename = (uintptr_t)i->names[k];
	set(i->codes[k] + 8, CODE_TYPE);
	set(i->codes[k] + 16, c.units);
	memcpy(i->codes[k] + (minor == 11 ? 72 : 68), &c.line, 4);
	set(i->codes[k] + 112, c.filename);
	set(i->codes[k] + 128, (uintptr_t)i->names[k]);
	memcpy(&c.head, name, length < 8 ? length : 8);
	if (length > 8)
		memcpy(&c.tail, name + length - 8, 8);
	return python_sign(&c) | (k == FRAMES - 1 ? PYTHON_HIDDEN : 0);
}

static void make_interpreter(struct interpreter *i, unsigned minor, struct python_threads *t)
{
	memset(i, 0, sizeof(*i));
	i->runtime[1] = (uintptr_t)i->head;
	i->head[2] = (uintptr_t)&i->states[0];
	for (size_t k = 0; k < STATES; k++) {
		i->states[k].next = k + 1 < STATES ? (uintptr_t)&i->states[k + 1] : 0;
		i->states[k].native = k == 1 ? (uint64_t)syscall(SYS_gettid) : 1;
	}
	i->cframe[minor == 11] = (uintptr_t)i->frames[0];
	i->states[1].frame = minor >= 13 ? (uintptr_t)i->frames[0] : (uintptr_t)i->cframe;
	for (size_t k = 0; k < FRAMES; k++) {
		uint64_t outer = k + 1 < FRAMES ? (uintptr_t)i->frames[k + 1] : 0;

		(void)make_code(i, k, minor);
		set(i->frames[k] + (minor == 11 ? 32 : 0),
		    code_of(i, k) | (minor >= 14)); /* a tag */
		set(i->frames[k] + (minor == 11 ? 48 : 8), outer);
		i->frames[k][minor == 11 ? 69 : minor < 14 ? 70 : 74] = (uint8_t)k;
		if (minor == 11)
			i->frames[k][68] = k == 1;
	}
	*t = (struct python_threads){.kind = minor,
				     .interpreter = (uintptr_t)&i->runtime[1],
				     .threads = 16,
				     .next = 0,
				     .native = 8,
				     .frame = 16,
				     .code_type = CODE_TYPE};
}

static int open_clock(int program)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = 1000000,
		.exclude_kernel = 1,
	};
	int fd = perf_event_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, PERF_EVENT_IOC_SET_BPF, program), 0);
	return fd;
}

/* All that the ring has; no record is old. */
static void take_over(struct python_stacks *s)
{
	records_expire(&s->records, 0);
}

/* Runs until @n records are there, or too long; the last one. */
static struct bpf_ring_record burn(struct python_stacks *s, size_t n)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + 20 * NSEC_PER_SEC;

	while (clock_ns(CLOCK_MONOTONIC) < until) {
		take_over(s);
		if (s->records.n_waiting >= n)
			return *waiting_at(&s->records, s->records.n_waiting - 1);
	}
	fail_msg("no record");
	return *waiting_at(&s->records, 0);
}

static void check_record(const struct bpf_ring_record *record, struct interpreter *i,
			 unsigned minor)
{
	const struct at_sample_record *head = record->data;
	const uint64_t *words = (const uint64_t *)(head + 1);

	assert_int_equal(head->tid, syscall(SYS_gettid));
	assert_int_equal(head->len, FRAMES * FRAME_BYTES);
	for (size_t k = 0; k < FRAMES; k++, words += PYTHON_STACK_WORDS) {
		assert_int_equal(words[0], (uintptr_t)i->frames[k] | make_code(i, k, minor) << 48);
		assert_int_equal(words[1], code_of(i, k));
		assert_int_equal(words[2] & ((1ull << 48) - 1),
				 k + 1 < FRAMES ? (uintptr_t)i->frames[k + 1] : 0);
		assert_int_equal(words[2] >> 56, k);
		assert_int_equal(words[2] >> 48 & 0xff, minor == 11 && k == 1);
	}
}

static void test_program(void **state)
{
	static struct interpreter interpreter;
	static struct features features = {.has[FEATURE_BPF] = true};
	const struct at_sample_options options = {.features = &features, .python = true};
	struct at_sample *at_sample;
	struct python_stacks *s;
	struct python_threads threads;
	struct bpf_ring_record record;
	char why[256] = "";
	int event, r = bpf_try();

	(void)state;
	if (r < 0) {
		print_message("no BPF programs here: %s\n", strerror(-r));
		skip();
	}
	assert_int_equal(at_sample_new(&options, &at_sample, why, sizeof(why)), 0);
	if (!at_sample) {
		print_message("no frames at samples here: %s\n", why);
		skip();
	}
	s = at_sample->python;
	event = open_clock(at_sample->program_fd);
	for (unsigned minor = 11; minor <= 15; minor++) {
		size_t known;

		make_interpreter(&interpreter, minor, &threads);
		python_stacks_add(s, (uint32_t)getpid(), &threads);
		take_over(s);
		known = s->records.n_waiting;
		record = burn(s, known + 3);
		check_record(&record, &interpreter, minor);
	}
	/* Another object, or a name that cannot be read: no sign. */
	set(interpreter.codes[0] + 8, CODE_TYPE + 8);
	set(interpreter.codes[1] + 128, 8);
	record = burn(s, s->records.n_waiting + 3);
	assert_int_equal(((const struct python_record *)record.data)->frames[0][0],
			 (uintptr_t)interpreter.frames[0]);
	assert_int_equal(((const struct python_record *)record.data)->frames[1][0],
			 (uintptr_t)interpreter.frames[1]);
	/* A circle has an end, a wrong pointer ends the frames. */
	set(interpreter.frames[2] + 8, (uintptr_t)interpreter.frames[0]);
	record = burn(s, s->records.n_waiting + 3);
	assert_int_equal(((const struct at_sample_record *)record.data)->len,
			 PYTHON_STACK_MAX * FRAME_BYTES);
	set(interpreter.frames[0] + 8, UINT64_MAX - 7);
	record = burn(s, s->records.n_waiting + 3);
	assert_int_equal(((const struct at_sample_record *)record.data)->len, FRAME_BYTES);
	/* Not this process any more. */
	python_stacks_add(s, (uint32_t)getpid() + PYTHON_PROCESSES, &threads);
	assert_int_equal(ioctl(event, PERF_EVENT_IOC_DISABLE, 0), 0);
	python_stacks_expire(s, UINT64_MAX);
	assert_int_equal(s->records.n_waiting, 0);
	assert_int_equal(ioctl(event, PERF_EVENT_IOC_ENABLE, 0), 0);
	while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) % (100 * NSEC_PER_MSEC) < 50 * NSEC_PER_MSEC)
		;
	take_over(s);
	assert_int_equal(s->records.n_waiting, 0);
	(void)fd_close(event);
	(void)at_sample_free(at_sample);
}

/* A PHP of this process: one frame, which runs a function in C. */
struct php {
	uint64_t current;
	uint64_t frame[10];
	uint64_t function[3]; /* type, name, class */
	uint64_t name[4];     /* the third: its length */
};

/* Was there a wake-up since the last call? */
static bool woken(int epoll)
{
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, 0) == 1;
}

static bool woken_soon(int epoll)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + 20 * NSEC_PER_SEC;

	while (clock_ns(CLOCK_MONOTONIC) < until)
		if (woken(epoll))
			return true;
	return false;
}

/* A function that is in a sample for the first time wakes main, by its content: it may be freed before its name is read. */
static void test_new_functions(void **state)
{
	static struct php php = {.function = {1}, .name = {0, 0, 8}};
	static struct features features = {.has[FEATURE_BPF] = true};
	const struct at_sample_options options = {.features = &features, .python = true};
	struct epoll_event ready = {.events = EPOLLIN | EPOLLET};
	struct at_sample *at_sample = NULL;
	struct python_stacks *s;
	char why[256] = "";
	int event, epoll;

	(void)state;
	if (bpf_try() < 0 || at_sample_new(&options, &at_sample, why, sizeof(why)) < 0 ||
	    !at_sample) {
		print_message("no frames at samples here: %s\n", why);
		skip();
	}
	s = at_sample->python;
	php.function[1] = (uintptr_t)php.name;
	php.frame[3] = (uintptr_t)php.function;
	php.current = (uintptr_t)php.frame;
	epoll = epoll_create1(EPOLL_CLOEXEC);
	assert_true(epoll >= 0 && python_stacks_fd(s) >= 0);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, python_stacks_fd(s), &ready), 0);
	event = open_clock(at_sample->program_fd);
	for (uint64_t name = 1; name <= 3; name++) {
		php.name[3] = name;
		python_stacks_add(s, (uint32_t)getpid(),
				  &(struct python_threads){.kind = PYTHON_IS_PHP,
							   .interpreter = (uintptr_t)&php.current});
		assert_true(woken_soon(epoll));
		take_over(s);
		(void)burn(s, s->records.n_waiting + 10);
		assert_false(woken(epoll)); /* known by now */
	}
	php.name[3] = 1; /* again */
	take_over(s);
	(void)burn(s, s->records.n_waiting + 10);
	assert_false(woken(epoll));
	assert_int_equal(s->table->unread, 0);
	(void)close(epoll);
	(void)fd_close(event);
	(void)at_sample_free(at_sample);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_join),	      cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_damaged),	      cmocka_unit_test(test_program),
		cmocka_unit_test(test_new_functions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
