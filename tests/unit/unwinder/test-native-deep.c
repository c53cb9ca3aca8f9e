/* test-native-deep.c - stacks beyond their copy: a read of the process that is torn ends the stack at the copy,
 * and what a thread has proved is joined to later copies as a guess.  The memory changes as its steps state. */
#include <time.h>

#include "tests/unit/unwinder/native-fixture.h"

enum {
	COPIED = 128, /* words */
	FRAME = 2,    /* words of SMALL's frame */
	ALL = WORDS / FRAME,
	IN_COPY =
		1 +
		COPIED / FRAME, /* the leaf, and the frames with their return address in the copy */
	CALL_AT = 0x20,
};

/* Memory that changes behind read number @after. */
struct moving {
	struct uw_memory memory;
	struct fake *fake;
	unsigned n_reads, after, gone_after;
	uint64_t *word, value;
	bool all_code; /* what the module has no bytes of is nops */
};

static struct moving moving;
static uint32_t space_key = 5;

static ssize_t moving_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct moving *m = container_of(memory, struct moving, memory);
	bool stack = address >= SP && address < SP + sizeof(m->fake->stack);
	ssize_t got;

	if (stack && m->gone_after && m->n_reads >= m->gone_after)
		return -1;
	got = m->fake->memory.read(&m->fake->memory, address, to, len);
	if (stack && ++m->n_reads == m->after)
		*m->word = m->value;
	if (got < 0 && m->all_code && address >= SMALL && address < SMALL + 0x1000) {
		memset(to, 0x90, len);
		got = (ssize_t)len;
	}
	return got;
}

/* 255 frames of SMALL and a root, of which the copy has the first words. */
static void deep(struct fixture *f, uint32_t thread)
{
	memset(f->stack, 0, sizeof(f->stack));
	for (size_t i = 1; i < WORDS; i += FRAME)
		f->stack[i] = SMALL + 1;
	f->stack[WORDS - 1] = ROOTED + 1;
	memcpy(f->fake.stack, f->stack, sizeof(f->stack));
	f->snapshot.stack_len = COPIED * 8;
	f->snapshot.stack_full = true;
	f->snapshot.thread = thread;
	f->snapshot.time = 0;
	moving = (struct moving){.memory.read = moving_read, .fake = &f->fake};
	fixture_space(f, space_key, &moving.memory);
}

static uint64_t room[ALL + 8];

static void run_at(struct fixture *f, uint64_t ip)
{
	f->regs[UW_X86_IP] = ip;
	f->res = (struct uw_result){.frames = room, .max_frames = ARRAY_SIZE(room)};
	assert_int_equal(uw_unwind_batch(f->engine, &f->snapshot, 1, &f->res), 0);
}

static void run_deep(struct fixture *f)
{
	run_at(f, SMALL);
}

/* Frames [from, n) are marked, the others are not. */
static void assert_marked(const struct fixture *f, uint32_t from)
{
	for (uint32_t i = 0; i < f->res.n_frames; i++)
		assert_int_equal(!!(room[i] & UW_FRAME_GUESSED), i >= from);
}

static void assert_cut(const struct fixture *f)
{
	assert_result(f, UW_CUT, UW_OK, IN_COPY);
	assert_marked(f, IN_COPY);
	assert_false(f->res.completed);
}

static void test_proved(void **state)
{
	struct fixture *f = *state;

	deep(f, 0);
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
	assert_marked(f, ALL + 1);
	assert_int_equal(f->res.stack_used, WORDS * 8);
	assert_int_equal(f->res.read_after_us, 0); /* of no known time */
	f->snapshot.time =
		clock_ns(CLOCK_REALTIME) + NSEC_PER_SEC * 3600; /* not before the sample */
	run_deep(f);
	assert_int_equal(f->res.read_after_us, 1);
	f->snapshot.time = 1; /* long ago */
	run_deep(f);
	assert_true(f->res.read_after_us > 1000000);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
	assert_marked(f, IN_COPY);
}

/* The thread returned and called while it was read: the first words, the bytes at the seam, an address. */
static void test_torn(void **state)
{
	struct fixture *f = *state;

	deep(f, 0);
	f->fake.stack[COPIED - 2] = 7; /* before the read */
	run_deep(f);
	assert_cut(f);
	deep(f, 0);
	moving.after = 1;
	moving.word = &f->fake.stack[COPIED - 2]; /* after it */
	moving.value = 7;
	run_deep(f);
	assert_cut(f);
	deep(f, 0);
	f->fake.stack[COPIED + 21] = 0x1234; /* not an address of code: was FAILED */
	run_deep(f);
	assert_cut(f);
	deep(f, 0);
	f->fake.stack[COPIED + 21] = DAMAGED + 1; /* CFI that states nothing */
	run_deep(f);
	assert_cut(f);
	deep(f, 0);
	f->fake.stack[COPIED + 1] = 0x6e616d652d6f6e20; /* text, first of all: was FAILED */
	run_deep(f);
	assert_cut(f);
	deep(f, 0);
	moving.gone_after = 1; /* exit */
	run_deep(f);
	assert_cut(f);
}

/* A stack with BARE beyond the copy, as the caller of SMALL; it has no call. */
static void deep_callless(struct fixture *f)
{
	deep(f, 0);
	f->fake.stack[COPIED + 21] = BARE + CALL_AT;
	f->fake.stack[COPIED + 21 + 3] = SMALL + 1; /* BARE has three words */
	f->fake.stack[COPIED + 21 + 4] = 0;
	f->fake.stack[COPIED + 21 + 5] = ROOTED + 1;
	memset(f->fake.bare, 0x90, sizeof(f->fake.bare));
}

/* An address beyond the copy follows no call. */
static void test_calls(void **state)
{
	struct fixture *f = *state;

	deep_callless(f);
	run_deep(f);
	assert_cut(f);
	f->fake.bare[CALL_AT - 5] = 0xe8;
	uw_engine_forget(f->engine, NULL);
	moving.n_reads = 0;
	run_deep(f);
	assert_int_equal(f->res.outcome, UW_WHOLE);
	assert_marked(f, f->res.n_frames);
}

static void put_jump(uint8_t *code, uint8_t op, uint64_t behind, uint64_t to)
{
	int32_t by = (int32_t)(to - behind);

	code[0] = op;
	memcpy(code + 1, &by, sizeof(by));
}

/* The same with a call of STILL. */
static void deep_called(struct fixture *f)
{
	deep_callless(f);
	memset(f->fake.still, 0x90, sizeof(f->fake.still));
	put_jump(&f->fake.bare[CALL_AT - 5], 0xe8, BARE + CALL_AT, STILL);
	uw_engine_forget(f->engine, NULL);
}

static void assert_leads(struct fixture *f, bool leads)
{
	uw_engine_forget(f->engine, NULL);
	run_deep(f);
	if (leads)
		assert_result(f, UW_WHOLE, UW_OK, IN_COPY + 10 + 3);
	else
		assert_cut(f);
}

/* What a thread that has returned leaves: a call that leads elsewhere. */
static void test_other_call(void **state)
{
	uint64_t to = SMALL;
	struct fixture *f = *state;
	uint8_t *still = f->fake.still;

	deep_called(f);
	assert_leads(f, false);
	put_jump(&f->fake.bare[CALL_AT - 5], 0xe8, BARE + CALL_AT, SMALL);
	assert_leads(f, true);
	deep_called(f);
	put_jump(&still[0x10], 0xe9, STILL + 0x15, SMALL + 4); /* a tail call, or its cold part */
	assert_leads(f, true);
	put_jump(&still[0x10], 0xe9, STILL + 0x15, BARE);
	assert_leads(f, false);
	memcpy(&still[0x20], "\xff\xe0", 2); /* jmp *%rax */
	assert_leads(f, true);
	deep_called(f);
	memcpy(&still[0x20], "\x48\x89\x04\x24", 4); /* mov %rax,(%rsp) */
	assert_leads(f, false);
	still[0x24] = 0xc3; /* and ret: a retpoline's thunk */
	assert_leads(f, true);
	/* An entry of a PLT: endbr64; jmp *GOT. */
	deep_called(f);
	memcpy(still, "\xf3\x0f\x1e\xfa\xff", 5);
	put_jump(&still[5], 0x25, STILL + 10, SP + (WORDS - 8) * 8);
	memcpy(&f->fake.stack[WORDS - 8], &to, sizeof(to));
	assert_leads(f, true);
	f->fake.stack[WORDS - 8] = BARE;
	assert_leads(f, false);
	/* What a copy has had holds. */
	f->stack[3] = BARE + CALL_AT;
	for (size_t i = 6; i < COPIED; i += FRAME)
		f->stack[i] = SMALL + 1;
	f->stack[COPIED - 1] = 0;
	memcpy(f->fake.stack, f->stack, COPIED * 8);
	f->fake.stack[COPIED] = ROOTED + 1;
	run_deep(f);
	assert_int_equal(f->res.outcome, UW_WHOLE);
	deep(f, 0);
	f->fake.stack[COPIED + 21] = BARE + CALL_AT;
	f->fake.stack[COPIED + 21 + 3] = SMALL + 1;
	f->fake.stack[COPIED + 21 + 5] = ROOTED + 1;
	f->fake.stack[WORDS - 8] = BARE;
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, IN_COPY + 10 + 3);
}

/* Stacks of one thread end at one root. */
static void test_root(void **state)
{
	struct fixture *f = *state;

	deep(f, 77);
	f->stack[9] = ROOTED + 1; /* another stack of the thread, all of it copied */
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, 6);
	deep(f, 77);
	run_deep(f);
	assert_cut(f);
	f->fake.stack[COPIED + 1] =
		0; /* not the end of the stack: was WHOLE, and the root of later ones */
	run_deep(f);
	assert_cut(f);
	deep(f, 78);
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
	/* A fiber's stack is elsewhere, and ends at a root of its own. */
	deep(f, 80);
	f->stack[9] = ROOTED + 1;
	f->regs[UW_X86_SP] = SP - (16 << 20);
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, 6);
	f->regs[UW_X86_SP] = SP;
	deep(f, 80);
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
}

static void test_joined(void **state)
{
	struct fixture *f = *state;

	deep(f, 79);
	moving.gone_after = 1;
	run_deep(f);
	assert_cut(f); /* nothing is known yet */
	deep(f, 79);
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
	/* The same, less deep by 8 frames, and the process is gone. */
	moving.gone_after = 1;
	f->regs[UW_X86_SP] = SP + 8 * FRAME * 8;
	f->snapshot.stack = (uint8_t *)&f->stack[8 * FRAME];
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1 - 8);
	assert_true(f->res.completed);
	assert_marked(f, IN_COPY);
	/* Another function at the seam; another thread; a stack pointer that was never seen. */
	f->stack[8 * FRAME + COPIED - FRAME - 1] = KEEPER + 1;
	run_deep(f);
	assert_int_equal(f->res.outcome, UW_CUT);
	f->stack[8 * FRAME + COPIED - FRAME - 1] = SMALL + 1;
	f->snapshot.thread = 80;
	run_deep(f);
	assert_cut(f);
	f->snapshot.thread = 79;
	f->regs[UW_X86_SP] = SP + 8;
	f->snapshot.stack = (uint8_t *)f->stack;
	run_deep(f);
	assert_cut(f);
	/* A late read is not proof. */
	uw_engine_forget(f->engine, NULL);
	deep(f, 79);
	f->regs[UW_X86_SP] = SP;
	f->snapshot.time = 1;
	run_deep(f);
	assert_int_equal(f->res.outcome, UW_WHOLE);
	deep(f, 79);
	moving.gone_after = 1;
	run_deep(f);
	assert_cut(f);
}

/* What was not there before the sample, too, is a guess. */
static void test_confirmed(void **state)
{
	uint64_t later = clock_ns(CLOCK_REALTIME) + 3600 * NSEC_PER_SEC; /* no read is late */
	struct fixture *f = *state;

	deep(f, 83);
	f->snapshot.time = later;
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
	assert_marked(f, IN_COPY);
	run_deep(f);
	assert_marked(f, ALL + 1);
	/* Another caller far out. */
	f->fake.stack[COPIED + 101] = SMALL + 2;
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
	assert_marked(f, IN_COPY);
	run_deep(f);
	assert_marked(f, ALL + 1);
}

/* The time of a read is the reader's, not that of the walk: a read soon after the sample is fresh whenever the unwinder gets it, and
 * the frames were there before a sample that follows the read. */
static void test_read_time(void **state)
{
	const struct uw_settings monotonic = {.clock = CLOCK_MONOTONIC};
	const uint64_t long_ago = 5000000;
	struct fixture *f = *state;

	uw_engine_set(f->engine, &monotonic);
	deep(f, 85);
	f->snapshot.time = long_ago;
	moving.memory.read_at = long_ago + 200000;
	run_deep(f);
	assert_int_equal(f->res.read_after_us, 200);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
	assert_marked(f, IN_COPY); /* its first stack */
	f->snapshot.time = long_ago + 200001;
	moving.memory.read_at = long_ago + 300001;
	run_deep(f);
	assert_int_equal(f->res.read_after_us, 100);
	assert_marked(f, ALL + 1);
	moving.memory.read_at = f->snapshot.time + UW_FRESH_NS + 1;
	run_deep(f);
	assert_int_equal(f->res.read_after_us, UW_FRESH_NS / 1000);
	assert_marked(f, IN_COPY);
	/* Another clock, of which only the difference is known. */
	uw_engine_set(f->engine, &(struct uw_settings){.clock = CLOCK_REALTIME});
	f->snapshot.time = clock_ns(CLOCK_REALTIME) - 60 * NSEC_PER_SEC;
	moving.memory.read_at = clock_ns(CLOCK_MONOTONIC) - 30 * NSEC_PER_SEC;
	run_deep(f);
	assert_in_range(f->res.read_after_us, 20000000, 40000000);
}

/* A later copy ends where the proved stack's copy had a frame. */
static void test_joined_in_copy(void **state)
{
	enum { SHORT = 32 };
	struct fixture *f = *state;

	deep(f, 81);
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
	moving.gone_after = 1;
	f->snapshot.stack_len = SHORT * 8;
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
	assert_true(f->res.completed);
	assert_marked(f, 1 + SHORT / FRAME);
	/* A stack that is not as deep takes nothing away: the first is joined as before. */
	deep(f, 81);
	f->regs[UW_X86_SP] = SP + 8 * FRAME * 8;
	f->snapshot.stack = (uint8_t *)&f->stack[8 * FRAME];
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1 - 8);
	assert_false(f->res.completed);
	deep(f, 81);
	moving.gone_after = 1;
	f->regs[UW_X86_SP] = SP;
	f->snapshot.stack = (uint8_t *)f->stack;
	f->snapshot.stack_len = SHORT * 8;
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
}

/* A copy that ends inside a frame: its caller is where a proved stack had a caller of the same function. */
static void test_joined_by_cfa(void **state)
{
	enum { AT = COPIED + 21 }; /* the word with the address in the caller */
	static const int32_t to_small = (int32_t)SMALL - (BARE + CALL_AT);
	struct fixture *f = *state;

	deep(f, 82);
	f->fake.stack[AT] = BARE + CALL_AT;
	f->fake.stack[AT + 3] = SMALL + 1; /* BARE has three words */
	f->fake.stack[AT + 4] = 0;
	f->fake.stack[AT + 5] = ROOTED + 1;
	memset(f->fake.bare, 0x90, sizeof(f->fake.bare));
	f->fake.bare[CALL_AT - 5] = 0xe8;
	memcpy(&f->fake.bare[CALL_AT - 4], &to_small, sizeof(to_small));
	run_deep(f);
	assert_int_equal(f->res.outcome, UW_WHOLE);
	assert_false(f->res.completed);
	moving.gone_after = 1;
	f->regs[UW_X86_SP] = SP + (AT - 1) * 8;
	f->snapshot.stack = (uint8_t *)&f->stack[AT - 1];
	f->snapshot.stack_len = 8;
	run_deep(f); /* in SMALL, not behind its call as before */
	assert_result(f, UW_WHOLE, UW_OK, 4);
	assert_true(f->res.completed);
	assert_marked(f, 1);
	assert_int_equal(uw_frame_pc(room[1]), BARE + CALL_AT);
	/* It called another function. */
	f->fake.bare[CALL_AT - 1] ^= 1;
	run_deep(f);
	assert_int_equal(f->res.outcome, UW_CUT);
}

/* A stack that is proved after a deeper one takes nothing away from it, but its outer frames are the later ones. */
static void test_joined_by_older(void **state)
{
	enum { LESS = 300, FAR_OUT = COPIED + LESS + 41 };
	struct fixture *f = *state;

	deep(f, 87);
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
	f->fake.stack[FAR_OUT] = SMALL + 2;
	f->regs[UW_X86_SP] = SP + LESS * 8;
	f->snapshot.stack = (uint8_t *)&f->stack[LESS];
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1 - LESS / FRAME);
	assert_false(f->res.completed);
	moving.gone_after = 1;
	f->regs[UW_X86_SP] = SP;
	f->snapshot.stack = (uint8_t *)f->stack;
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
	assert_true(f->res.completed);
	assert_marked(f, IN_COPY);
	assert_int_equal(uw_frame_pc(room[1 + LESS / FRAME]), SMALL + 1);
	assert_int_equal(uw_frame_pc(room[1 + FAR_OUT / FRAME]), SMALL + 2);
}

/* A copy that ends in a function that had callers at another stack pointer: they lead to a frame of the proved stack. */
static void test_joined_by_way(void **state)
{
	enum { BARE_AT = COPIED + 41, NEXT = BARE_AT + 3 };
	struct fixture *f = *state;

	deep(f, 88);
	f->stack[COPIED - 1] = f->fake.stack[COPIED - 1] = BARE + CALL_AT;
	for (size_t i = COPIED + 2; i < WORDS; i += FRAME) /* BARE has three words */
		f->fake.stack[i] = i < COPIED + 6 ? SMALL + 2 : SMALL + 1;
	f->fake.stack[WORDS - 2] = ROOTED + 1;
	run_deep(f);
	assert_int_equal(f->res.outcome, UW_WHOLE);
	assert_false(f->res.completed);
	deep(f, 88);
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
	moving.gone_after = 1;
	f->regs[UW_X86_SP] = SP + BARE_AT * 8;
	f->snapshot.stack = (uint8_t *)&f->stack[BARE_AT];
	f->snapshot.stack_len = 8;
	run_at(f, BARE + CALL_AT);
	assert_result(f, UW_WHOLE, UW_OK, 1 + (WORDS - NEXT) / FRAME + 1);
	assert_true(f->res.completed);
	assert_marked(f, 1);
	assert_int_equal(uw_frame_pc(room[1]), SMALL + 2);
	assert_int_equal(uw_frame_pc(room[2]), SMALL + 2);
	assert_int_equal(uw_frame_pc(room[3]), SMALL + 1);
	/* They lead to none. */
	f->regs[UW_X86_SP] += 8;
	run_at(f, BARE + CALL_AT);
	assert_result(f, UW_CUT, UW_OK, 1);
	f->regs[UW_X86_SP] -= 8;
	f->snapshot.thread = 89;
	run_at(f, BARE + CALL_AT);
	assert_result(f, UW_CUT, UW_OK, 1);
}

/* The same thread, BARE at the end of its copy, with the callers @first and @second; they have two words, or BARE's three. */
static void deep_bare(struct fixture *f, uint64_t first, uint64_t second)
{
	size_t at = COPIED + 2;

	deep(f, 90);
	f->stack[COPIED - 1] = f->fake.stack[COPIED - 1] = BARE + CALL_AT;
	memset(&f->fake.stack[COPIED], 0, (WORDS - COPIED) * 8);
	f->fake.stack[at] = first;
	at += first == BARE + CALL_AT ? 3 : FRAME;
	f->fake.stack[at] = second;
	for (at += FRAME; at + FRAME < WORDS; at += FRAME)
		f->fake.stack[at] = SMALL + 1;
	f->fake.stack[at] = ROOTED + 1;
	run_deep(f);
	assert_int_equal(f->res.outcome, UW_WHOLE);
	assert_false(f->res.completed);
}

/* A copy that ends in BARE, at another stack pointer, and the process is gone. */
static void run_bare(struct fixture *f)
{
	enum { BARE_AT = COPIED + 41 };

	deep(f, 90);
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
	moving.gone_after = 1;
	f->regs[UW_X86_SP] = SP + BARE_AT * 8;
	f->snapshot.stack = (uint8_t *)&f->stack[BARE_AT];
	f->snapshot.stack_len = 8;
	run_at(f, BARE + CALL_AT);
	f->regs[UW_X86_SP] = SP;
	f->snapshot.stack = (uint8_t *)f->stack;
}

/* A function with several ways: the one that leads to the proved stack.  Two that do give no frame. */
static void test_joined_by_ways(void **state)
{
	struct fixture *f = *state;

	f->fake.bare[CALL_AT - 5] = 0xe8;
	deep_bare(f, SMALL + 2, SMALL + 2);
	deep_bare(f, BARE + CALL_AT, SMALL + 1); /* an odd number of words */
	for (int i = 0; i < 64; i++)		 /* known callers need no other place */
		deep_bare(f, SMALL + 2, SMALL + 2);
	deep_bare(f, BARE + CALL_AT, SMALL + 1);
	run_bare(f);
	assert_int_equal(f->res.outcome, UW_WHOLE);
	assert_true(f->res.completed);
	assert_marked(f, 1);
	assert_int_equal(uw_frame_pc(room[1]), SMALL + 2);
	assert_int_equal(uw_frame_pc(room[2]), SMALL + 2);
	assert_int_equal(uw_frame_pc(room[3]), SMALL + 1);
	deep_bare(f, SMALL + 3, SMALL + 2);
	run_bare(f);
	assert_result(f, UW_CUT, UW_OK, 1);
}

/* A copy of eight bytes that ends in SAVES, and the process is gone. */
static void run_saves(struct fixture *f)
{
	enum { AT = COPIED + 41 };

	deep(f, 91);
	moving.gone_after = 1;
	moving.n_reads = 1;
	f->regs[UW_X86_SP] = SP + AT * 8;
	f->snapshot.stack_len = 8;
	run_at(f, SAVES);
	f->regs[UW_X86_SP] = SP;
}

static const uint64_t by_small[] = {SMALL + 1, 0, SMALL + 1, 0};

/* A copy with BARE, and SMALL as its caller; @inner are the words below BARE's return address, an even number. */
static void run_in_bare(struct fixture *f, const uint64_t *inner, size_t n)
{
	size_t in_bare = n + 1;

	deep(f, 91);
	moving.all_code = true;
	memcpy(&f->stack[1], inner, n * sizeof(*inner));
	f->stack[in_bare] = BARE + 0x40;
	for (size_t i = in_bare + 1; i < COPIED; i++)
		f->stack[i] = (i - in_bare) % FRAME && i > in_bare + 2 ? SMALL + 1 : 0;
	run_deep(f);
	assert_int_equal(f->res.outcome, UW_CUT);
}

/* BARE has the only call of SAVES.  What the thread has beyond its copy is kept. */
static void begin_saves(struct fixture *f)
{
	memset(f->fake.bare, 0x90, sizeof(f->fake.bare));
	put_jump(&f->fake.bare[CALL_AT - 5], 0xe8, BARE + CALL_AT, SAVES);
	deep(f, 91);
	run_deep(f);
	assert_result(f, UW_WHOLE, UW_OK, ALL + 1);
}

static void run_roots(struct fixture *f, uint32_t key, unsigned n)
{
	fixture_space(f, key, NULL);
	for (unsigned i = 0; i < n; i++) {
		run_at(f, ROOTED);
		assert_result(f, UW_WHOLE, UW_OK, 1);
	}
}

/* Is the way of SAVES known? */
static void assert_way(struct fixture *f, bool known)
{
	run_saves(f);
	assert_int_equal(f->res.outcome, known ? UW_WHOLE : UW_CUT);
}

/* A process that wants a way ends: others get theirs. */
static void test_want_of_gone(void **state)
{
	struct fixture *f = *state;

	space_key = 6;
	begin_saves(f);
	assert_way(f, false);
	space_key = 5;
	begin_saves(f);
	run_roots(f, 7, 2048);
	assert_way(f, false);
	run_in_bare(f, by_small, ARRAY_SIZE(by_small));
	assert_way(f, true);
}

/* A search in vain ends, and the same one begins again only after many other stacks. */
static void test_want_ends(void **state)
{
	struct fixture *f = *state;

	begin_saves(f);
	assert_way(f, false);
	run_roots(f, 5, 512);
	assert_way(f, false);
	run_in_bare(f, by_small, ARRAY_SIZE(by_small));
	assert_way(f, false);
	run_roots(f, 7, 8192);
	assert_way(f, false);
	run_in_bare(f, by_small, ARRAY_SIZE(by_small));
	assert_way(f, true);
}

/* One stack searches four functions that were not searched yet. */
static void test_want_scans(void **state)
{
	static const uint64_t inner[] = {KEEPER + 1, 0,		  0,	     STILL + 1,
					 STILL + 1,  EMPTIED + 1, SMALL + 1, 0};
	struct fixture *f = *state;

	begin_saves(f);
	assert_way(f, false);
	run_in_bare(f, inner, ARRAY_SIZE(inner));
	assert_way(f, false);
	run_in_bare(f, inner, ARRAY_SIZE(inner));
	assert_way(f, true);
}

/* The frame of SAVES is larger than a copy.  BARE calls it, and is in a copy while it calls another function. */
static void test_joined_by_copy(void **state)
{
	enum { TAIL_FROM = COPIED + 41 + 4 + 3 };
	struct fixture *f = *state;

	for (int calls = 1; calls <= 2; calls++) {
		uw_engine_free(f->engine); /* what code shows is kept */
		assert_int_equal(uw_engine_new(UW_ENGINE_NATIVE, &f->engine), 0);
		begin_saves(f);
		if (calls == 2) /* from which place is not known */
			put_jump(&f->fake.bare[0x60], 0xe8, BARE + 0x65, SAVES);
		run_saves(f);
		assert_result(f, UW_CUT, UW_OK, 1);
		run_in_bare(f, by_small, ARRAY_SIZE(by_small));
		run_saves(f);
		if (calls == 2)
			break;
		assert_result(f, UW_WHOLE, UW_OK, 2 + (WORDS - TAIL_FROM) / FRAME + 1);
		assert_true(f->res.completed);
		assert_marked(f, 1);
		assert_int_equal(uw_frame_pc(room[1]), BARE + CALL_AT);
		assert_int_equal(uw_frame_pc(room[2]), SMALL + 1);
	}
	assert_result(f, UW_CUT, UW_OK, 1);
}

/* A signal's frame leads out of the copy and ends there, and the process's memory is out of reach. */
static void test_no_memory(void **state)
{
	struct fixture *f = *state;

	deep(f, 86);
	fixture_space(f, 5, NULL);
	f->stack[1] = SIGNAL + 1;
	f->stack[2] =
		SIGNAL + 1; /* interrupted in a trampoline: the registers of another one follow */
	f->stack[6] = SP + 3 * 8;
	f->stack[3] = ROOTED;
	f->stack[7] = SP + (COPIED + 40) * 8;
	run_deep(f);
	assert_int_equal(f->res.outcome, UW_WHOLE);
	run_deep(f);
	assert_int_equal(f->res.outcome, UW_WHOLE);
}

/* More frames than there is room for, beyond the copy. */
static void test_bound(void **state)
{
	struct fixture *f = *state;

	deep(f, 0);
	f->regs[UW_X86_IP] = SMALL;
	f->res = (struct uw_result){.frames = room, .max_frames = 100};
	assert_int_equal(uw_unwind_batch(f->engine, &f->snapshot, 1, &f->res), 0);
	assert_result(f, UW_CUT, UW_TOO_DEEP, 100);
	moving.n_reads = 0;
	moving.after = 1;
	moving.word = &f->fake.stack[COPIED - 2];
	moving.value = 7;
	assert_int_equal(uw_unwind_batch(f->engine, &f->snapshot, 1, &f->res), 0);
	assert_cut(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_proved),	   TEST(test_torn),	      TEST(test_calls),
		TEST(test_root),	   TEST(test_joined),	      TEST(test_bound),
		TEST(test_confirmed),	   TEST(test_joined_in_copy), TEST(test_joined_by_cfa),
		TEST(test_read_time),	   TEST(test_no_memory),      TEST(test_joined_by_older),
		TEST(test_joined_by_way),  TEST(test_joined_by_ways), TEST(test_other_call),
		TEST(test_joined_by_copy), TEST(test_want_of_gone),   TEST(test_want_ends),
		TEST(test_want_scans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
