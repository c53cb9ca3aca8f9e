/* test-python-calls.c - the callers of a Python function by the sizes of frames (native-calls.c), and where its loop has the instruction
 * during a call (native-loop.c). */
#include <time.h>

#include "tests/unit/unwinder/native-fixture.h"
#include "unwinder/script-frames.h"

enum { END = 0x10000200, RSP_SLOT = 0x10, NEXT = 10, INSN_RBP = 5 };

struct calls {
	struct native_script *s;
	struct script_callers found;
};

static void calls_begin(struct calls *c)
{
	c->s = calloc(1, sizeof(*c->s));
	assert_non_null(c->s);
	c->s->serial = 7;
}

static void calls_again(struct calls *c)
{
	free(c->s);
	calls_begin(c);
}

/* @callee was seen with @caller in several readings. */
static void called(struct calls *c, uint64_t callee, uint64_t caller, uint32_t size)
{
	for (int i = 0; i < 3; i++) {
		c->s->sampled = c->s->read_at + 1;
		c->s->read_at += NSEC_PER_MSEC;
		script_call_note(c->s, callee, 0,
				 &(struct script_caller){.id = caller, .size = size});
	}
}

/* The callers of @id, which has its frame @room bytes behind END. */
static bool search(struct calls *c, uint64_t id, uint64_t room)
{
	c->s->n_steps = 0;
	return script_call_search(
		c->s,
		&(struct script_room){
			.id = id, .top = END + room, .end = END, .outer = SCRIPT_RUN_ENDS},
		&c->found);
}

static void expect_path(const struct calls *c, const uint64_t *ids, size_t n)
{
	assert_true(c->found.whole);
	assert_int_equal(c->found.n, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(c->found.path[i].id, ids[i]);
}
#define EXPECT_PATH(c, ...) \
	expect_path(c, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

enum { F = 0x100, G = 0x200, H = 0x300, MAIN = 0x400, GENERATOR = 0x500, FEW = 0x600 };

/* f is called by g and by h, and these by C code, or by main: the room shows which. */
static void test_room(void **state)
{
	struct calls c;

	(void)state;
	calls_begin(&c);
	called(&c, F, G, 80);
	called(&c, F, H, 96);
	called(&c, G, SCRIPT_RUN_ENDS, 0);
	called(&c, H, MAIN, 112);
	called(&c, MAIN, SCRIPT_RUN_ENDS, 0);
	assert_true(search(&c, F, 80));
	EXPECT_PATH(&c, G);
	assert_true(c.found.path[0].proved);
	assert_true(search(&c, F, 208));
	EXPECT_PATH(&c, MAIN, H);
	assert_true(c.found.path[1].proved);
	assert_int_equal(c.found.room, 208);
	/* Nothing fits: f alone is not enough, and main did not call g. */
	assert_false(search(&c, F, 8));
	assert_false(search(&c, F, 192));
	assert_false(search(&c, F, 192)); /* (which is remembered, */
	called(&c, G, MAIN, 112);	  /* ... until another call is seen) */
	assert_true(search(&c, F, 192));
	EXPECT_PATH(&c, MAIN, G);
	/* It has the room alone. */
	assert_true(search(&c, F, 0));
	assert_true(c.found.whole);
	assert_int_equal(c.found.n, 0);
	free(c.s);
}

/* A function that was seen once is a guess; one with callers that are not known, too. */
static void test_guesses(void **state)
{
	struct calls c;

	(void)state;
	calls_begin(&c);
	script_call_note(c.s, F, 0, &(struct script_caller){.id = G, .size = 80});
	script_call_note(c.s, G, 0, &(struct script_caller){.id = SCRIPT_RUN_ENDS});
	assert_true(search(&c, F, 80));
	EXPECT_PATH(&c, G);
	assert_false(c.found.path[0].proved);
	called(&c, F, G, 80);
	called(&c, G, SCRIPT_RUN_ENDS, 0);
	assert_true(search(&c, F, 80));
	assert_true(c.found.path[0].proved);
	called(&c, F, H, 40);
	assert_true(search(&c, F, 80));
	EXPECT_PATH(&c, G);
	assert_false(c.found.path[0].proved);
	free(c.s);
}

/* g and h call each other and f: in which order is not known; the one that was seen there last is a guess, what is outwards of it
 * is proved. */
static void test_orders(void **state)
{
	struct calls c;

	(void)state;
	calls_begin(&c);
	called(&c, F, G, 80);
	called(&c, F, H, 96);
	called(&c, G, H, 96);
	called(&c, H, G, 80);
	called(&c, G, MAIN, 112);
	called(&c, H, MAIN, 112);
	called(&c, MAIN, SCRIPT_RUN_ENDS, 0);
	script_frame_note(c.s, H, END + 112);
	script_frame_note(c.s, G, END + 208);
	assert_true(search(&c, F, 288));
	EXPECT_PATH(&c, MAIN, H, G);
	assert_false(c.found.path[1].proved);
	assert_false(c.found.path[2].proved);
	script_frame_note(c.s, G, END + 112);
	script_frame_note(c.s, H, END + 192);
	assert_true(search(&c, F, 288));
	EXPECT_PATH(&c, MAIN, G, H);
	free(c.s);
}

/* @callee, which has a frame of @size bytes, was seen with @caller in @n readings. */
static void called_by(struct calls *c, uint64_t callee, uint32_t size, struct script_caller caller,
		      int n)
{
	for (int i = 0; i < n; i++) {
		c->s->sampled = c->s->read_at + 1;
		c->s->read_at += NSEC_PER_MSEC;
		script_call_note(c->s, callee, size, &caller);
	}
}

/* The frame at @top is g's and h's in turn. */
static void flip(struct calls *c, uint64_t top)
{
	const struct native e = {.engine.settings.clock = CLOCK_REALTIME};

	for (uint64_t i = 0; i < 4; i++) {
		c->s->read_at += NSEC_PER_SEC;
		script_note(c->s, &e, top, i & 1 ? G : H, 0);
	}
}

static void name(struct calls *c, uint64_t id)
{
	*script_function_slot(c->s, id) = (struct script_function){
		.address = id, .serial = c->s->serial, .filename = 8, .qualname = 16};
}

#define EXPECT_MAIN_ALONE(c)                                   \
	do {                                                   \
		assert_false((c)->found.whole);                \
		assert_int_equal((c)->found.n, 1);             \
		assert_int_equal((c)->found.path[0].id, MAIN); \
		assert_true((c)->found.path[0].proved);        \
	} while (0)

/* main calls g and h, which have frames as large: what calls f is a guess where g was seldom seen to, and from then on where h was,
 * too; none where the frame at that address is g's and h's in turn.  main, where both meet, is proved. */
static void test_twins(void **state)
{
	const struct script_caller g = {.id = G, .size = 80}, h = {.id = H, .size = 80};
	const struct script_caller outer = {.id = MAIN, .size = 112};
	struct calls c;

	(void)state;
	calls_begin(&c);
	called_by(&c, MAIN, 112, (struct script_caller){.id = SCRIPT_RUN_ENDS}, 3);
	called_by(&c, G, 80, outer, 3);
	called_by(&c, F, 64, g, 3);
	assert_true(search(&c, F, 192));
	EXPECT_PATH(&c, MAIN, G);
	assert_true(c.found.path[1].proved);
	called_by(&c, H, 80, outer, 3);
	assert_true(search(&c, F, 192));
	EXPECT_PATH(&c, MAIN, G);
	assert_true(c.found.path[0].proved);
	assert_false(c.found.path[1].proved);
	called_by(&c, F, 64, g, 8);
	assert_true(search(&c, F, 192));
	assert_true(c.found.path[1].proved);
	called_by(&c, F, 64, h, 3);
	assert_true(search(&c, F, 192));
	assert_true(c.found.whole);
	assert_true(c.found.path[0].proved);
	assert_false(c.found.path[1].proved);
	flip(&c, END + 112);
	assert_false(search(&c, F, 192));
	EXPECT_MAIN_ALONE(&c);
	/* Where h was not seen to call it, and g was seldom: a guess, as long as it has no other caller. */
	called_by(&c, FEW, 64, g, 3);
	assert_true(search(&c, FEW, 192));
	EXPECT_PATH(&c, MAIN, G);
	assert_false(c.found.path[1].proved);
	called_by(&c, FEW, 64, (struct script_caller){.id = F, .size = 40}, 3);
	assert_false(search(&c, FEW, 192));
	EXPECT_MAIN_ALONE(&c);
	called_by(&c, FEW, 64, g, 8);
	assert_true(search(&c, FEW, 192));
	EXPECT_PATH(&c, MAIN, G);
	/* Both have one name. */
	name(&c, G);
	name(&c, H);
	c.s->n_calls++;
	assert_true(search(&c, F, 192));
	assert_true(c.found.whole);
	assert_int_equal(c.found.n, 2);
	assert_false(c.found.path[1].proved);
	free(c.s);
}

/* Generators that fill the room alike: the one that is seen far more often is a guess, and none else. */
static void test_rare(void **state)
{
	const struct script_caller often = {.id = GENERATOR}, seldom = {.id = FEW};
	const struct script_caller end = {.id = SCRIPT_RUN_ENDS};
	struct calls c;

	(void)state;
	calls_begin(&c);
	called_by(&c, F, 64, (struct script_caller){.id = G, .size = 80}, 24);
	called_by(&c, G, 80, often, 24);
	called_by(&c, GENERATOR, 0, end, 24);
	called_by(&c, FEW, 0, end, 24);
	called_by(&c, G, 80, seldom, 3);
	flip(&c, END);
	assert_true(search(&c, F, 80));
	EXPECT_PATH(&c, GENERATOR, G);
	assert_false(c.found.path[0].proved);
	assert_false(c.found.path[1].proved);
	called_by(&c, G, 80, seldom, 1);
	c.s->n_calls++; /* (a search in vain is not repeated until then) */
	assert_false(search(&c, F, 80));
	/* Seen once, where another was seen more often: not at all, but the other is a guess. */
	calls_again(&c);
	called_by(&c, F, 64, often, 2);
	called_by(&c, GENERATOR, 0, (struct script_caller){.id = MAIN}, 1);
	called_by(&c, F, 64, (struct script_caller){.id = MAIN}, 1);
	called_by(&c, MAIN, 0, end, 3);
	assert_true(search(&c, F, 0));
	EXPECT_PATH(&c, MAIN, GENERATOR);
	assert_false(c.found.path[1].proved);
	/* Two ways to one place. */
	calls_again(&c);
	called_by(&c, F, 64, (struct script_caller){.id = FEW}, 3);
	called_by(&c, F, 64, often, 2);
	called_by(&c, FEW, 0, often, 3);
	called_by(&c, GENERATOR, 0, end, 3);
	assert_true(search(&c, F, 0));
	EXPECT_PATH(&c, GENERATOR, FEW);
	assert_false(c.found.path[1].proved);
	free(c.s);
}

/* Of the thread's outermost run a generator is never the outermost function. */
static void test_root(void **state)
{
	struct script_room room = {.id = GENERATOR, .outer = SCRIPT_RUN_ENDS, .end = END};
	struct calls c;

	(void)state;
	calls_begin(&c);
	called(&c, F, GENERATOR, 0);
	called(&c, GENERATOR, SCRIPT_RUN_ENDS, 0);
	assert_true(script_call_search(c.s, &room, &c.found));
	room.root = true;
	assert_false(script_call_search(c.s, &room, &c.found));
	room.id = F;
	assert_false(script_call_search(c.s, &room, &c.found));
	free(c.s);
}

/* Generators have no room: how many call each other is not known.  Nothing goes on without end. */
static void test_generators(void **state)
{
	struct calls c;

	(void)state;
	calls_begin(&c);
	called(&c, F, GENERATOR, 0);
	called(&c, GENERATOR, MAIN, 112);
	called(&c, MAIN, SCRIPT_RUN_ENDS, 0);
	assert_true(search(&c, F, 112));
	EXPECT_PATH(&c, MAIN, GENERATOR);
	assert_true(c.found.path[1].proved);
	called(&c, GENERATOR, GENERATOR, 0);
	assert_true(search(&c, F, 112));
	assert_false(c.found.path[c.found.n - 1].proved);
	/* A great many ways. */
	for (uint64_t i = 0; i < 8; i++)
		for (uint64_t k = 0; k < 8; k++)
			called(&c, 0x1000 + i, 0x1000 + k, (uint32_t)(8 * (k + 1)));
	assert_false(search(&c, 0x1000, 60000));
	free(c.s);
}

/* Each kind of place where the instruction comes back from, in front of a jump. */
static void test_places(void **state)
{
	static const struct {
		uint8_t code[24];
		enum script_where_kind kind;
		int32_t at;
	} cases[] = {
		{{0x4c, 0x8b, 0x54, 0x24, RSP_SLOT},
		 SCRIPT_IN_SLOT,
		 RSP_SLOT},						  /* mov 16(%rsp),%r10 */
		{{0x4c, 0x8b, 0x94, 0x24, 0x88}, SCRIPT_IN_SLOT, 0x88},	  /* mov 136(%rsp),%r10 */
		{{0x49, 0x89, 0xea}, SCRIPT_IN_REGISTER, INSN_RBP},	  /* mov %rbp,%r10 */
		{{0x4c, 0x8b, 0xd5}, SCRIPT_IN_REGISTER, INSN_RBP},	  /* the other form */
		{{0x0f, 0xb6, 0x45, 0x01}, SCRIPT_IN_REGISTER, INSN_RBP}, /* movzbl 1(%rbp),%eax */
		{{0x41, 0x0f, 0xb6, 0x04, 0x24}, SCRIPT_IN_REGISTER, 12}, /* movzbl (%r12),%eax */
		{{0x48, 0x8b, 0x7c, 0x24, 0x18, 0x4c, 0x8d, 0x57, 6},
		 SCRIPT_IN_SLOT,
		 0x18}, /* lea 6(%rdi),%r10 */
		{{0x4c, 0x8b, 0x44, 0x24, 0x18, 0x4d, 0x89, 0xc2},
		 SCRIPT_IN_SLOT,
		 0x18}, /* mov 24(%rsp),%r8; mov %r8,%r10 */
		{{0x48, 0x8b, 0x45, 0x38}, SCRIPT_IN_FRAME, INSN_RBP}, /* mov 56(%rbp),%rax */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t code[64];
		struct script_slot s = {.n = 0};

		memset(code, 0x90, sizeof(code));
		memcpy(code + 3, cases[i].code, 12);
		for (size_t k = 3; k < 15; k++)
			code[k] = code[k] ? code[k] : 0x90;
		memcpy(code + 3, cases[i].code, 9);
		assert_int_equal(script_loop_slots(&s, code, sizeof(code), 0x5000, NEXT), 0);
		assert_true(s.n > 0);
		assert_int_equal(s.where[0].kind, cases[i].kind);
		assert_int_equal(s.where[0].at, cases[i].at);
		/* Behind a jump it is another instruction's; the place where it leads to is the answer. */
		memset(&s, 0, sizeof(s));
		memcpy(code + 3, "\xe9\x00\x01\x00\x00", 5);
		memcpy(code + 20, cases[i].code, 9);
		assert_int_equal(script_loop_slots(&s, code, sizeof(code), 0x5000, NEXT), 0x5108);
		assert_int_equal(s.n, 0);
	}
}

/* A slot that code behind the call uses for something else: for the instruction, and for another word. */
static void test_slot_again(void **state)
{
	static const uint8_t code[] = {
		0x4c, 0x8b, 0x44, 0x24, 0x18, /* mov 24(%rsp),%r8 */
		0x4c, 0x89, 0x44, 0x24, 0x28, /* mov %r8,40(%rsp) */
		0x4c, 0x8b, 0x54, 0x24, 0x28, /* mov 40(%rsp),%r10 */
		0xff, 0xe0,		      /* jmp *%rax */
	};
	uint8_t other[64];
	struct script_slot s = {.n = 0};

	(void)state;
	memset(other, 0x90, sizeof(other));
	memcpy(other, code, sizeof(code));
	assert_int_equal(script_loop_slots(&s, other, sizeof(other), 0x5000, NEXT), 0);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.where[0].kind, SCRIPT_IN_SLOT);
	assert_int_equal(s.where[0].at, 0x18);
	memcpy(other, "\x4c\x8b\x00", 3); /* mov (%rax),%r8 */
	memset(other + 3, 0x90, 2);
	s.n = 0;
	(void)script_loop_slots(&s, other, sizeof(other), 0x5000, NEXT);
	assert_int_equal(s.n, 0);
}

/* Any bytes: no more places than there is room for, and no byte is read beyond the end (a sanitizer sees it). */
static void test_any_bytes(void **state)
{
	static const uint8_t firsts[8] = {0x48, 0x4c, 0x8b, 0x89, 0x0f, 0xb6, 0x8d, 0xe9};
	uint64_t seed = 1;

	(void)state;
	for (size_t len = 0; len <= 192; len++) {
		uint8_t *code = malloc(len ? len : 1);
		struct script_slot s = {.n = 0};

		assert_non_null(code);
		for (size_t i = 0; i < len; i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			code[i] = i & 1 ? (uint8_t)(seed >> 56) : firsts[seed >> 61];
		}
		/* The longest instruction at the end: REX, two bytes, ModRM, SIB, a part of its 32 bits. */
		if (len >= 8)
			memcpy(code + len - 8, "\x44\x0f\xb6\xb4\x24\x01\x02\x03", 8);
		(void)script_loop_slots(&s, code, len, 0, NEXT);
		assert_true(s.n <= SCRIPT_WHERES);
		free(code);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room),   cmocka_unit_test(test_guesses),
		cmocka_unit_test(test_orders), cmocka_unit_test(test_twins),
		cmocka_unit_test(test_root),   cmocka_unit_test(test_generators),
		cmocka_unit_test(test_places), cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_rare),   cmocka_unit_test(test_slot_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
