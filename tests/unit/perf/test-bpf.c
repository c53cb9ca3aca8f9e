/* test-bpf.c - bpf.h: jumps of a program; rings over given memory, whole and damaged; and, where the
 * kernel permits it, a program at the samples of this thread and of a child that inherits the event. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#include "perf/bpf-parts.h"
#include "perf/uapi.h"

/* ---- instructions ---- */

static void test_jumps(void **state)
{
	struct bpf_code *c = calloc(1, sizeof(*c));
	int back, ahead;

	(void)state;
	assert_non_null(c);
	back = bpf_label(c);
	ahead = bpf_label(c);
	bpf_here(c, back);
	bpf_set(c, 0, 1);
	bpf_jump(c, BPF_JEQ, 0, 5, ahead);	/* 1 -> 4 */
	bpf_set64(c, 1, 0x1122334455667788ull); /* two instructions */
	bpf_here(c, ahead);
	bpf_jump(c, BPF_JA, 0, 0, back); /* 4 -> 0 */
	assert_int_equal(bpf_code_link(c), 0);
	assert_int_equal(c->n, 5);
	assert_int_equal(c->insns[1].off, 2);
	assert_int_equal(c->insns[4].off, -5);
	assert_int_equal(c->insns[2].imm, 0x55667788);
	assert_int_equal(c->insns[3].imm, 0x11223344);
	bpf_jump(c, BPF_JA, 0, 0, bpf_label(c)); /* a label that is nowhere */
	assert_int_equal(bpf_code_link(c), -EINVAL);
	while (!c->overflow)
		bpf_set(c, 0, 0);
	assert_int_equal(bpf_code_link(c), -E2BIG);
	free(c);
}

/* ---- rings ---- */

enum { SIZE = 4096 };

struct ring_memory {
	_Atomic uint64_t consumer, producer;
	_Alignas(8) uint8_t data[2 * SIZE];
	struct bpf_ring *ring;
};

static struct ring_memory *memory_new(uint64_t position)
{
	struct ring_memory *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	m->consumer = m->producer = position;
	assert_int_equal(bpf_ring_of(&m->consumer, &m->producer, m->data, SIZE, &m->ring), 0);
	return m;
}

static void memory_free(struct ring_memory *m)
{
	(void)bpf_ring_free(m->ring);
	free(m);
}

static void set_header(struct ring_memory *m, uint64_t position, uint32_t header)
{
	memcpy(m->data + position % SIZE, &header, sizeof(header));
	memcpy(m->data + SIZE + position % SIZE, &header, sizeof(header));
}

/* Reserves a record; @flags: bit 31 busy, bit 30 thrown away. */
static uint64_t reserve(struct ring_memory *m, uint32_t len, uint32_t flags)
{
	uint64_t position = m->producer;

	set_header(m, position, len | flags);
	m->producer = position + 8 + ((len + 7) & ~7u);
	return position;
}

static void expect(struct ring_memory *m, uint64_t position, size_t len)
{
	struct bpf_ring_record record;

	assert_int_equal(bpf_ring_next(m->ring, &record), 0);
	assert_int_equal(record.position, position);
	assert_int_equal(record.len, len);
	assert_ptr_equal(record.data, m->data + position % SIZE + 8);
}

static void expect_none(struct ring_memory *m)
{
	struct bpf_ring_record record;

	assert_int_equal(bpf_ring_next(m->ring, &record), BPF_RING_EMPTY);
}

static void test_ring_order(void **state)
{
	struct ring_memory *m = memory_new(SIZE - 16); /* the second record wraps */
	uint64_t a, b, c;

	(void)state;
	expect_none(m);
	a = reserve(m, 5, 0);
	b = reserve(m, 100, 0);
	(void)reserve(m, 8, 1u << 30);
	c = reserve(m, 8, 0);
	expect(m, a, 5);
	expect(m, b, 100);
	expect(m, c, 8);
	expect_none(m);
	bpf_ring_put(m->ring, b);
	assert_int_equal(m->consumer, a);
	bpf_ring_put(m->ring, a); /* over b and the one thrown away */
	assert_int_equal(m->consumer, c);
	bpf_ring_put(m->ring, c);
	assert_int_equal(m->consumer, m->producer);
	memory_free(m);
}

/* A record that is still written is passed over, and comes as soon as it is finished. */
static void test_ring_busy(void **state)
{
	struct ring_memory *m = memory_new(0);
	uint64_t a = reserve(m, 8, 1u << 31), b = reserve(m, 16, 0), c;

	(void)state;
	expect(m, b, 16);
	expect_none(m);
	bpf_ring_put(m->ring, b);
	assert_int_equal(m->consumer, 0);
	c = reserve(m, 24, 0);
	set_header(m, a, 8);
	expect(m, a, 8);
	expect(m, c, 24);
	expect_none(m);
	bpf_ring_put(m->ring, c);
	bpf_ring_put(m->ring, a);
	assert_int_equal(m->consumer, m->producer);
	memory_free(m);
}

static void test_ring_many(void **state)
{
	struct ring_memory *m = memory_new(0);
	uint64_t first = m->producer, at[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(at); i++)
		at[i] = reserve(m, 8, 0);
	for (size_t i = 0; i < ARRAY_SIZE(at); i++)
		expect(m, at[i], 8);
	for (size_t i = ARRAY_SIZE(at); i-- > 1;)
		bpf_ring_put(m->ring, at[i]);
	assert_int_equal(m->consumer, first);
	bpf_ring_put(m->ring, at[0]);
	assert_int_equal(m->consumer, m->producer);
	memory_free(m);
}

static void test_ring_damaged(void **state)
{
	struct bpf_ring_record record;
	struct ring_memory *m = memory_new(0);

	(void)state;
	(void)reserve(m, 8, 0);
	set_header(m, 0, 100); /* longer than what was reserved */
	assert_int_equal(bpf_ring_next(m->ring, &record), -EBADMSG);
	memory_free(m);
	m = memory_new(0);
	m->producer = SIZE + 8; /* more than the ring holds */
	assert_int_equal(bpf_ring_next(m->ring, &record), -EBADMSG);
	memory_free(m);
	m = memory_new(0);
	m->producer = 4; /* half a header */
	assert_int_equal(bpf_ring_next(m->ring, &record), -EBADMSG);
	memory_free(m);
}

/* ---- a program of the kernel ---- */

struct seen {
	uint64_t pc, sp;
	uint32_t tid, unused;
};

struct counting {
	struct bpf_ring *ring;
	struct bpf_words words;
};

/* Counts in word 0, and reports each sample of user code in the ring. */
static void emit_counting(struct bpf_code *c, void *arg, bool in_kernel)
{
	const struct counting *k = arg;
	int end = bpf_label(c);

	bpf_word(c, &k->words, 0, end);
	bpf_set(c, 1, 1);
	bpf_add_atomic(c, 0, 0, 1);
	bpf_user_regs(c, 7, 8, in_kernel, end);
	bpf_map(c, 1, bpf_ring_fd(k->ring));
	bpf_set(c, 2, sizeof(struct seen));
	bpf_set(c, 3, 0);
	bpf_call(c, BPF_CALL_RING_RESERVE);
	bpf_jump(c, BPF_JEQ, 0, 0, end);
	bpf_move(c, 9, 0);
	bpf_store(c, BPF_DW, 9, offsetof(struct seen, pc), 7);
	bpf_store(c, BPF_DW, 9, offsetof(struct seen, sp), 8);
	bpf_call(c, BPF_CALL_PID_TGID);
	bpf_store(c, BPF_W, 9, offsetof(struct seen, tid), 0);
	bpf_move(c, 1, 9);
	bpf_set(c, 2, 1);
	bpf_call(c, BPF_CALL_RING_SUBMIT);
	bpf_here(c, end);
}

static int open_clock(int program)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = 1000000,
		.exclude_kernel = 1,
		.inherit = 1,
		.disabled = 1,
	};
	int fd = perf_event_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program) < 0) {
		int r = -errno;

		(void)fd_close(fd);
		return r;
	}
	return fd;
}

/* Until the program has run @n times; the limit is for a kernel that never runs it. */
static void burn(const struct counting *k, uint64_t n)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + 20 * NSEC_PER_SEC;

	while (atomic_load(&k->words.at[0]) < n && clock_ns(CLOCK_MONOTONIC) < until)
		;
}

static void check_records(const struct counting *k, uint32_t parent, uint32_t child)
{
	uint64_t here = (uintptr_t)__builtin_frame_address(0);
	struct bpf_ring_record record;
	size_t of_parent = 0, of_child = 0;

	while (bpf_ring_next(k->ring, &record) == 0) {
		const struct seen *seen = record.data;

		assert_int_equal(record.len, sizeof(*seen));
		of_parent += seen->tid == parent;
		of_child += seen->tid == child;
		assert_true(seen->sp - here + (1 << 20) < 2 << 20); /* this stack */
		bpf_ring_put(k->ring, record.position);
	}
	assert_true(of_parent > 0 && of_child > 0);
}

static void test_program(void **state)
{
	struct counting k = {.words.fd = -1};
	struct bpf_part part = {"counting", emit_counting, &k};
	char why[256] = "";
	int program, event, status, r = bpf_try();
	pid_t child;

	(void)state;
	if (r < 0) {
		print_message("no BPF programs here: %s\n", strerror(-r));
		skip();
	}
	assert_int_equal(bpf_ring_new(1 << 20, &k.ring), 0);
	assert_int_equal(bpf_words_new(2, &k.words), 0);
	program = bpf_program_new(&part, 1, why, sizeof(why));
	if (program < 0)
		fail_msg("%s", why);
	event = open_clock(program);
	assert_true(event >= 0);
	assert_int_equal(ioctl(event, PERF_EVENT_IOC_ENABLE, 0), 0);
	child = fork();
	if (child == 0) { /* neither the words nor the ring are in it: by its own CPU time */
		while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) < 50 * NSEC_PER_MSEC)
			;
		_exit(0);
	}
	burn(&k, 20);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(ioctl(event, PERF_EVENT_IOC_DISABLE, 0), 0);
	check_records(&k, (uint32_t)getpid(), (uint32_t)child);
	(void)fd_close(event);
	(void)fd_close(program);
	bpf_words_deinit(&k.words);
	(void)bpf_ring_free(k.ring);
}

/* Turns 0 to 6 of 1,000: the sum, 21, into word 0, at the last turn. */
static void sum_turn(struct bpf_code *c, const void *arg)
{
	int more = bpf_label(c);

	(void)arg;
	bpf_load(c, BPF_DW, 6, 2, -16);
	bpf_math_reg(c, BPF_ADD, 6, 1);
	bpf_store(c, BPF_DW, 2, -16, 6);
	bpf_jump(c, BPF_JLT, 1, 6, more);
	bpf_return(c, 1);
	bpf_here(c, more);
	bpf_return(c, 0);
}

static void emit_sum(struct bpf_code *c, void *arg, bool in_kernel)
{
	const struct bpf_words *words = arg;
	int end = bpf_label(c);

	(void)in_kernel;
	bpf_store_imm(c, BPF_DW, 10, -16, 0);
	bpf_repeat(c, 1000, sum_turn, NULL);
	bpf_word(c, words, 0, end);
	bpf_load(c, BPF_DW, 1, 10, -16);
	bpf_store(c, BPF_DW, 0, 0, 1);
	bpf_here(c, end);
}

static void test_loop(void **state)
{
	struct counting k = {.words.fd = -1};
	struct bpf_part part = {"sum", emit_sum, &k.words};
	char why[256] = "";
	int program, event;

	(void)state;
	if (bpf_try() < 0)
		skip();
	assert_int_equal(bpf_words_new(1, &k.words), 0);
	program = bpf_program_new(&part, 1, why, sizeof(why));
	if (program < 0) {
		print_message("no loops in BPF programs here (Linux 5.17): %s\n", why);
		bpf_words_deinit(&k.words);
		skip();
	}
	event = open_clock(program);
	assert_true(event >= 0);
	assert_int_equal(ioctl(event, PERF_EVENT_IOC_ENABLE, 0), 0);
	burn(&k, 1);
	(void)fd_close(event);
	(void)fd_close(program);
	assert_int_equal(atomic_load(&k.words.at[0]), 21);
	bpf_words_deinit(&k.words);
}

static void emit_wrong(struct bpf_code *c, void *arg, bool in_kernel)
{
	(void)arg;
	(void)in_kernel;
	bpf_load(c, BPF_DW, 0, 9, 0); /* r9 has no value */
}

static void test_refused(void **state)
{
	struct bpf_part part = {"wrong", emit_wrong, NULL};
	char why[256] = "";

	(void)state;
	assert_true(bpf_program_new(&part, 1, why, sizeof(why)) < 0);
	assert_true(*why);
	if (bpf_try() >= 0)
		assert_non_null(strstr(why, "R9"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jumps),	     cmocka_unit_test(test_ring_order),
		cmocka_unit_test(test_ring_busy),    cmocka_unit_test(test_ring_many),
		cmocka_unit_test(test_ring_damaged), cmocka_unit_test(test_program),
		cmocka_unit_test(test_loop),	     cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
