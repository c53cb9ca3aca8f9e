/* test-native-stg.c - callers in Haskell: GHC's stack and its info tables, made by hand; hostile ones are fuzz-stg.c's.
 *
 * GHC's code is `silent` of native-fixture.h, with the return addresses CODE(i), each behind its info table. */
#include <time.h>

#include "tests/unit/unwinder/native-calls.h"
#include "tests/unit/unwinder/stg-stack.h"

enum { HEAP_WORDS = 1024, PAGE_OF_CODE = 0x401000 };
#define HEAP 0x5000000000ull
#define CODE(i) (SILENT + 0x10 + 0x20 * (uint64_t)(i))
enum { SMALL_TYPE = 30, BIG_TYPE, FUN_TYPE, UPDATE_TYPE, CATCH_TYPE, UNDERFLOW_TYPE, STOP_TYPE };

struct haskell {
	struct uw_memory memory;
	struct fixture *f;
	uint64_t words[HEAP_WORDS];
	uint8_t code[0x80]; /* at SILENT */
	uint8_t page[4096]; /* with that */
};

static ssize_t haskell_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct haskell *h = container_of(memory, struct haskell, memory);

	if (address >= HEAP && address < HEAP + sizeof(h->words)) {
		len = min_u64(len, HEAP + sizeof(h->words) - address);
		memcpy(to, (uint8_t *)h->words + (address - HEAP), len);
		return (ssize_t)len;
	}
	if (address == PAGE_OF_CODE && len == sizeof(h->page)) {
		memcpy(h->page + (SILENT - PAGE_OF_CODE), h->code, sizeof(h->code));
		memcpy(to, h->page, len);
		return (ssize_t)len;
	}
	if (address >= SILENT && address < SILENT + sizeof(h->code)) {
		len = min_u64(len, SILENT + sizeof(h->code) - address);
		memcpy(to, h->code + (address - SILENT), len);
		return (ssize_t)len;
	}
	return h->f->fake.memory.read(&h->f->fake.memory, address, to, len);
}

static void set_table(struct haskell *h, size_t i, uint32_t type, uint64_t layout)
{
	memset(h->code + 0x20 * i, 0x90, 0x20);
	stg_table(h->code + 0x20 * i, type, layout);
}

static void begin(struct fixture *f, struct haskell *h, uint64_t *stack)
{
	*h = (struct haskell){.memory = {.read = haskell_read}, .f = f};
	memset(h->code, 0x90, sizeof(h->code));
	fixture_space(f, 6, &h->memory);
	stg_stack(f->fake.bare, BARE, RUNS, stack, SP, ROOTED + 1);
	f->snapshot.stack = (uint8_t *)stack;
	f->snapshot.stack_len = STG_WORDS * sizeof(*stack);
	f->regs[UW_X86_BP] = HEAP;
	f->snapshot.n_python = 0;
	f->snapshot.time = 1;
}

/* The sample's stack is @words. */
static void copied(struct fixture *f, uint64_t *copy, const uint64_t *words, size_t n)
{
	copy[0] = f->regs[UW_X86_BP];
	memcpy(copy + 1, words, 8 * n);
	memset(copy + 1 + n, 0, 16);
	f->snapshot.python = copy;
	f->snapshot.n_python = (uint32_t)(n + 1 + 2) / UW_PYTHON_WORDS;
}
#define COPIED(f, copy, ...)                             \
	copied(f, copy, (const uint64_t[]){__VA_ARGS__}, \
	       sizeof((const uint64_t[]){__VA_ARGS__}) / 8)
#define C_STACK CALLED(BARE + 0x25), CALLED(ROOTED + 1)
enum { PC = SILENT + 0x7a };

static void test_kinds(void **state)
{
	struct fixture *f = *state;
	uint64_t stack[STG_WORDS], copy[32];
	struct haskell h;

	begin(f, &h, stack);
	set_table(&h, 0, SMALL_TYPE, 2 | 1 << 6);
	set_table(&h, 1, UPDATE_TYPE, 1);
	set_table(&h, 2, STOP_TYPE, 0);
	/* Marks of the run time system are not callers. */
	COPIED(f, copy, CODE(0), 5, 6, CODE(1), 7, CODE(0), 8, 9, CODE(2), 1);
	run(f, PC);
	EXPECT(f, PC, CODE(0), CODE(0), C_STACK);
	assert_true(f->res.stg);
	/* A call's arguments are above its return address. */
	COPIED(f, copy, 1, 2, CODE(0), 5, 6, CODE(2), 1, 1);
	run(f, PC);
	EXPECT(f, PC, CODE(0), C_STACK);
	/* A partial call: its number of words is in the frame. */
	set_table(&h, 1, FUN_TYPE, 0);
	uw_engine_forget(f->engine, NULL);
	COPIED(f, copy, CODE(0), 5, 6, CODE(0), 5, 6, CODE(2), 1);
	run(f, PC);
	EXPECT(f, PC, CODE(0), CODE(0), C_STACK);
	/* The copy of another stack pointer is none. */
	copy[0] = HEAP + 0x100000;
	run(f, PC);
	EXPECT(f, PC, C_STACK);
}

static void test_fun_big(void **state)
{
	struct fixture *f = *state;
	uint64_t stack[STG_WORDS], copy[32];
	struct haskell h;

	begin(f, &h, stack);
	set_table(&h, 0, FUN_TYPE, 0);
	set_table(&h, 1, BIG_TYPE, (uint32_t)(SILENT + 0x70 - CODE(1)));
	set_table(&h, 2, SMALL_TYPE, 0);
	h.code[0x70] = 3;
	memset(h.code + 0x71, 0, 7);
	COPIED(f, copy, CODE(0), 2, 0, 7, 7, CODE(1), 1, 2, 3, CODE(2), 0, 0);
	run(f, SILENT + 0x7c);
	EXPECT(f, SILENT + 0x7c, CODE(0), CODE(1), CODE(2), C_STACK);
}

/* The frame at the stack pointer is the running function's own while its code goes on behind the return address. */
static void test_own(void **state)
{
	struct fixture *f = *state;
	uint64_t stack[STG_WORDS], copy[32];
	struct haskell h;

	begin(f, &h, stack);
	set_table(&h, 0, SMALL_TYPE, 1);
	set_table(&h, 1, SMALL_TYPE, 0);
	COPIED(f, copy, CODE(0), 5, CODE(1), 0, 0);
	run(f, CODE(0) + 4);
	EXPECT(f, CODE(0) + 4, CODE(1), C_STACK);
	run(f, CODE(1) + 4); /* behind another table */
	EXPECT(f, CODE(1) + 4, CODE(0), CODE(1), C_STACK);
}

/* What was read after the sample is shown where it was there before, too. */
static void test_late(void **state)
{
	struct fixture *f = *state;
	uint64_t stack[STG_WORDS], until = clock_ns(CLOCK_MONOTONIC) + 20 * NSEC_PER_SEC;
	struct haskell h;

	begin(f, &h, stack);
	set_table(&h, 0, SMALL_TYPE, 0);
	set_table(&h, 1, UNDERFLOW_TYPE, 1);
	set_table(&h, 2, STOP_TYPE, 0);
	h.words[0] = CODE(0);
	h.words[1] = CODE(1); /* goes on in another piece of stack */
	h.words[2] = HEAP + 800;
	h.words[102] = HEAP + 840; /* its stack pointer */
	h.words[105] = CODE(0);
	h.words[106] = CODE(2);
	run(f, PC);
	EXPECT(f, PC, C_STACK);
	do {
		f->snapshot.time = clock_ns(CLOCK_REALTIME);
		run(f, PC);
	} while (f->res.n_frames < 5 && clock_ns(CLOCK_MONOTONIC) < until);
	EXPECT(f, PC, CODE(0), CODE(0), C_STACK);
	h.words[0] = CODE(2);
	run(f, PC);
	EXPECT(f, PC, C_STACK);
	h.words[0] = CODE(0);
	f->snapshot.time = clock_ns(CLOCK_REALTIME);
	run(f, PC);
	EXPECT(f, PC,
	       C_STACK); /* the outer one was there all the time, but called another function */
}

static void test_calls(void **state)
{
	struct native_calls c = {.f = *state, .pc = PC, .kind = UW_ENGINE_NATIVE};
	uint64_t stack[STG_WORDS], copy[32];
	struct haskell h;

	begin(c.f, &h, stack);
	set_table(&h, 0, SMALL_TYPE, 2 | 1 << 6);
	set_table(&h, 2, STOP_TYPE, 0);
	COPIED(c.f, copy, CODE(0), 5, 6, CODE(0), 8, 9, CODE(2), 1);
	native_calls_sweep("Haskell's callers", &c);
	assert_int_equal(c.n, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_kinds), TEST(test_fun_big), TEST(test_own),
		TEST(test_late),  TEST(test_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
