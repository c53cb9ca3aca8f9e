/* test-mark-functions.c - slices of functions: nesting, functions that were left, other stacks. */
#include <string.h>

#include "marks/mark-functions.h"
#include "tests/unit/cmocka.h"

/* The stack of the tests ends here. */
#define STACK 0x7ffc00100000ull

struct seen {
	size_t n;
	struct mark_function_slice slices[64];
};

static int see(void *arg, const struct mark_function_slice *slice)
{
	struct seen *s = arg;

	assert_true(s->n < 64);
	s->slices[s->n++] = *slice;
	return 0;
}

static struct mark_functions *begin(struct seen *s, uint64_t min_ns)
{
	const struct mark_functions_options options = {.min_ns = min_ns, .slice = see, .arg = s};
	struct mark_functions *f;

	assert_int_equal(mark_functions_new(&options, &f), 0);
	return f;
}

static uint64_t now;

/* Function @name with its frame's end @depth below the stack's begin; a call site of its own. */
static void enter(struct mark_functions *f, char name, uint64_t sp)
{
	const struct mark_function at = {.tid = 1,
					 .time = now += 10,
					 .address = (uint64_t)name,
					 .site = (uint64_t)name + 0x1000,
					 .sp = sp};

	assert_int_equal(mark_functions_enter(f, &at), 0);
}

static void leave(struct mark_functions *f, char name, uint64_t sp)
{
	const struct mark_function at = {.tid = 1,
					 .time = now += 10,
					 .address = (uint64_t)name,
					 .site = (uint64_t)name + 0x1000,
					 .sp = sp};

	assert_int_equal(mark_functions_leave(f, &at), 0);
}

/* The slices in order of their ends: "c b a"; one that was left has a !, one that ended with its thread a $. */
static void expect(const struct seen *s, const char *text)
{
	char got[256] = "";
	size_t len = 0;

	for (size_t i = 0; i < s->n; i++)
		len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%c%s%s", i ? " " : "",
					(char)s->slices[i].address,
					s->slices[i].how == MARK_FUNCTION_LEFT	  ? "!"
					: s->slices[i].how == MARK_FUNCTION_ENDED ? "$"
										  : "",
					s->slices[i].resumed ? "+" : "");
	assert_string_equal(got, text);
	/* Of two slices one holds the other, or they do not overlap. */
	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < i; k++) {
			const struct mark_function_slice *a = &s->slices[k], *b = &s->slices[i];

			assert_true(a->end <= b->begin || b->end <= a->begin ||
				    (b->begin <= a->begin && a->end <= b->end) ||
				    (a->begin <= b->begin && b->end <= a->end));
		}
}

static void nested(void **state)
{
	struct seen s = {0};
	struct mark_functions *f = begin(&s, 0);

	(void)state;
	now = 0;
	enter(f, 'a', STACK - 100);
	enter(f, 'b', STACK - 200);
	enter(f, 'c', STACK - 300);
	leave(f, 'c', STACK - 300);
	leave(f, 'b', STACK - 200);
	leave(f, 'a', STACK - 100);
	expect(&s, "c b a");
	assert_int_equal(s.slices[2].begin, 10);
	assert_int_equal(s.slices[2].end, 60);
	assert_int_equal(s.slices[0].begin, 30);
	assert_int_equal(s.slices[0].end, 40);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(s.slices[i].depth, 2 - i);
	(void)mark_functions_free(f);
}

static void thrown_through_five(void **state)
{
	struct seen s = {0};
	struct mark_functions *f = begin(&s, 0);

	(void)state;
	now = 0;
	enter(f, 'm', STACK - 100);
	for (int i = 0; i < 5; i++)
		enter(f, (char)('a' + i), STACK - 200 - (uint64_t)i * 100);
	/* caught in m, which calls n */
	enter(f, 'n', STACK - 150);
	leave(f, 'n', STACK - 150);
	leave(f, 'm', STACK - 100);
	expect(&s, "e! d! c! b! a! n m");
	assert_int_equal(s.slices[4].end, 60); /* the thread's latest mark before */
	(void)mark_functions_free(f);
}

/* Nothing is called after it: the end of the function that was jumped to closes the others. */
static void jumped_to_the_end(void **state)
{
	struct seen s = {0};
	struct mark_functions *f = begin(&s, 0);

	(void)state;
	now = 0;
	enter(f, 'm', STACK - 100);
	enter(f, 'a', STACK - 200);
	enter(f, 'b', STACK - 300);
	leave(f, 'm', STACK - 100);
	expect(&s, "b! a! m");
	(void)mark_functions_free(f);
}

/* Again and again at the same depth: of the same function, and of another one with a frame of the same size. */
static void jumped_in_a_loop(void **state)
{
	struct seen s = {0};
	struct mark_functions *f = begin(&s, 0);

	(void)state;
	now = 0;
	enter(f, 'm', STACK - 100);
	enter(f, 'a', STACK - 200);
	enter(f, 'a', STACK - 200);
	enter(f, 'b', STACK - 200);
	leave(f, 'b', STACK - 200);
	leave(f, 'm', STACK - 100);
	expect(&s, "a! a! b m");
	(void)mark_functions_free(f);
}

/* The next function has a larger frame: it begins above the one that was left, and ends below it. */
static void jumped_into_a_larger_frame(void **state)
{
	struct seen s = {0};
	struct mark_functions *f = begin(&s, 0);
	struct mark_function at = {
		.tid = 1, .address = 'b', .site = 7, .sp = STACK - 300, .frame = STACK - 100};

	(void)state;
	now = 0;
	enter(f, 'm', STACK - 100);
	enter(f, 'a', STACK - 200);
	at.time = now += 10;
	assert_int_equal(mark_functions_enter(f, &at), 0);
	at.time = now += 10;
	assert_int_equal(mark_functions_leave(f, &at), 0);
	leave(f, 'm', STACK - 100);
	expect(&s, "a! b m");
	(void)mark_functions_free(f);
}

/* A function that is inlined has the frame and the call site of its caller. */
static void inlined(void **state)
{
	struct seen s = {0};
	struct mark_functions *f = begin(&s, 0);
	struct mark_function at = {
		.tid = 1, .time = 10, .address = 'a', .site = 7, .sp = STACK - 200};

	(void)state;
	assert_int_equal(mark_functions_enter(f, &at), 0);
	at.address = 'b';
	at.time = 20;
	assert_int_equal(mark_functions_enter(f, &at), 0);
	at.time = 30;
	assert_int_equal(mark_functions_leave(f, &at), 0);
	at.address = 'a';
	at.time = 40;
	assert_int_equal(mark_functions_leave(f, &at), 0);
	expect(&s, "b a");
	(void)mark_functions_free(f);
}

/* alloca() moves the stack pointer between the begin and the end. */
static void alloca_between(void **state)
{
	struct seen s = {0};
	struct mark_functions *f = begin(&s, 0);

	(void)state;
	now = 0;
	enter(f, 'a', STACK - 200);
	enter(f, 'b', STACK - 900);
	leave(f, 'b', STACK - 900);
	leave(f, 'a', STACK - 800);
	expect(&s, "b a");
	(void)mark_functions_free(f);
}

/* An end that is reported by a jump has the stack pointer of the caller; of a recursion the innermost one ends, and where that
 * was left, the outer one. */
static void ends_by_jump(void **state)
{
	struct seen s = {0};
	struct mark_functions *f = begin(&s, 0);
	struct mark_function at = {.tid = 1, .address = 'a', .site = 7, .tail = true};

	(void)state;
	now = 0;
	enter(f, 'm', STACK - 100);
	for (uint64_t i = 1; i <= 3; i++) {
		at.time = now += 10;
		at.sp = STACK - 100 - i * 100;
		assert_int_equal(mark_functions_enter(f, &at), 0);
	}
	at.time = now += 10;
	at.sp = STACK - 300;
	assert_int_equal(mark_functions_leave(f, &at), 0);
	at.time = now += 10;
	at.sp = STACK - 100;
	assert_int_equal(mark_functions_leave(f, &at), 0);
	leave(f, 'm', STACK - 100);
	expect(&s, "a a! a m");
	(void)mark_functions_free(f);
}

/* g++ reports the end of a function that an exception leaves: there are more in flight than at its begin. */
static void exception_reported(void **state)
{
	struct seen s = {0};
	struct mark_functions *f = begin(&s, 0);
	struct mark_function at = {
		.tid = 1, .time = 10, .address = 'a', .site = 7, .sp = STACK - 200};

	(void)state;
	assert_int_equal(mark_functions_enter(f, &at), 0);
	at.address = 'd'; /* a destructor, which returns while the exception is in flight */
	at.sp -= 100;
	at.uncaught = 1;
	assert_int_equal(mark_functions_enter(f, &at), 0);
	assert_int_equal(mark_functions_leave(f, &at), 0);
	at.address = 'a';
	at.sp += 100;
	assert_int_equal(mark_functions_leave(f, &at), 0);
	expect(&s, "d a!");
	(void)mark_functions_free(f);
}

/* A handler on an alternate stack, above and below in memory, interrupts and returns. */
static void alternate_stack(void **state)
{
	struct seen s = {0};
	struct mark_functions *f = begin(&s, 0);

	(void)state;
	now = 0;
	assert_int_equal(mark_functions_stack(f, STACK + 0x1000, STACK + 0x9000), 0);
	assert_int_equal(mark_functions_stack(f, 0x5000, 0x9000), 0);
	enter(f, 'a', STACK - 200);
	enter(f, 'h', STACK + 0x8f00);
	leave(f, 'h', STACK + 0x8f00);
	enter(f, 'b', STACK - 300);
	enter(f, 'l', 0x8f00);
	leave(f, 'l', 0x8f00);
	leave(f, 'b', STACK - 300);
	leave(f, 'a', STACK - 200);
	expect(&s, "h l b a");
	/* The handler leaves by siglongjmp(). */
	s.n = 0;
	enter(f, 'a', STACK - 200);
	enter(f, 'h', STACK + 0x8f00);
	leave(f, 'a', STACK - 200);
	enter(f, 'h', STACK + 0x8f00);
	leave(f, 'h', STACK + 0x8f00);
	expect(&s, "h a h!+ h");
	(void)mark_functions_free(f);
}

/* Coroutines: a function of one is open while the other one's callers end. */
static void coroutines(void **state)
{
	struct seen s = {0};
	struct mark_functions *f = begin(&s, 0);

	(void)state;
	now = 0;
	assert_int_equal(mark_functions_stack(f, 0x10000, 0x20000), 0);
	enter(f, 'a', STACK - 200);
	enter(f, 'c', 0x1ff00); /* swapcontext() */
	enter(f, 'd', 0x1fe00);
	leave(f, 'a', STACK - 200); /* back */
	enter(f, 'b', STACK - 200);
	leave(f, 'd', 0x1fe00); /* there again */
	leave(f, 'c', 0x1ff00);
	leave(f, 'b', STACK - 200);
	expect(&s, "d c a b d+ b+ c+ b+");
	(void)mark_functions_free(f);
}

/* No exception left a function with an end that was lost. */
static void lost_end(void **state)
{
	struct seen s = {0};
	struct mark_functions *f = begin(&s, 0);

	(void)state;
	now = 0;
	enter(f, 'm', STACK - 100);
	enter(f, 'a', STACK - 200);
	mark_functions_gap(f, 1);
	mark_functions_gap(f, 2);
	enter(f, 'b', STACK - 150);
	enter(f, 'c', STACK - 250);
	leave(f, 'm', STACK - 100);
	assert_int_equal(s.slices[0].how, MARK_FUNCTION_LOST);
	expect(&s, "a c! b! m");
	(void)mark_functions_free(f);
}

static void thread_end(void **state)
{
	struct seen s = {0};
	struct mark_functions *f = begin(&s, 0);

	(void)state;
	now = 0;
	enter(f, 'a', STACK - 200);
	enter(f, 'b', STACK - 300);
	assert_int_equal(mark_functions_thread_end(f, 1, 100), 0);
	expect(&s, "b$ a$");
	assert_int_equal(s.slices[1].end, 100);
	s.n = 0;
	enter(f, 'a', STACK - 200); /* the number is another thread's now */
	leave(f, 'z', STACK - 100); /* began before the recording */
	expect(&s, "a!");
	s.n = 0;
	enter(f, 'x', STACK - 200);
	assert_int_equal(mark_functions_end(f), 0);
	expect(&s, "x$");
	(void)mark_functions_free(f);
}

static void min_duration(void **state)
{
	struct seen s = {0};
	struct mark_functions *f = begin(&s, 20);

	(void)state;
	now = 0;
	enter(f, 'a', STACK - 200);
	enter(f, 'b', STACK - 300);
	leave(f, 'b', STACK - 300);
	leave(f, 'a', STACK - 200);
	expect(&s, "a");
	(void)mark_functions_free(f);
}

static void bounds(void **state)
{
	struct seen s = {0};
	struct mark_functions *f = begin(&s, UINT64_MAX);
	struct mark_function at = {.site = 1};

	(void)state;
	for (uint32_t i = 0; i < MARK_FUNCTIONS_DEPTH + 10; i++) {
		at = (struct mark_function){
			.tid = 1, .time = i, .address = 3, .site = i, .sp = STACK - i};
		assert_int_equal(mark_functions_enter(f, &at), 0);
	}
	assert_int_equal(mark_functions_dropped(f), 10);
	for (uint32_t i = 0; i < MARK_FUNCTIONS_THREADS + 10; i++) {
		at.tid = i + 2;
		assert_int_equal(mark_functions_enter(f, &at), 0);
	}
	assert_int_equal(mark_functions_dropped(f), 10 + 11);
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(mark_functions_stack(f, i * 100, i * 100 + 50), 0);
	/* Any numbers. */
	for (uint64_t i = 0; i < 100000; i++) {
		uint64_t h = hash_u64(i);

		at = (struct mark_function){.tid = (uint32_t)h % 5,
					    .time = h >> 7,
					    .address = h % 7,
					    .site = h % 3,
					    .sp = h % 11 ? STACK - h % 4096 : h};
		assert_int_equal(
			h & 32 ? mark_functions_enter(f, &at) : mark_functions_leave(f, &at), 0);
	}
	assert_int_equal(mark_functions_end(f), 0);
	(void)mark_functions_free(f);
}

/* ---- the work and the room that a hostile program can ask for ---- */

static int count_slice(void *arg, const struct mark_function_slice *slice)
{
	assert_true(slice->begin <= slice->end);
	++*(size_t *)arg;
	return 0;
}

static struct mark_functions *begin_counting(size_t *n, size_t *rooms)
{
	const struct mark_functions_options options = {
		.slice = count_slice, .arg = n, .rooms = rooms};
	struct mark_functions *f;

	assert_int_equal(mark_functions_new(&options, &f), 0);
	return f;
}

static int enter_as(struct mark_functions *f, uint32_t tid, uint64_t name, uint64_t sp)
{
	const struct mark_function at = {
		.tid = tid, .time = now += 10, .address = name, .site = name, .sp = sp};

	return mark_functions_enter(f, &at);
}

static int leave_as(struct mark_functions *f, uint32_t tid, uint64_t name, uint64_t sp)
{
	const struct mark_function at = {
		.tid = tid, .time = now += 10, .address = name, .site = name, .sp = sp};

	return mark_functions_leave(f, &at);
}

/* Each end of a caller would give all functions of the other stack in parts. */
static void many_parts(void **state)
{
	enum { HALF = MARK_FUNCTIONS_DEPTH / 2, OTHER = 1 << 30, PARTS = 128 };
	size_t n = 0, before;
	struct mark_functions *f = begin_counting(&n, NULL);

	(void)state;
	now = 0;
	for (uint64_t i = 0; i < HALF / 2; i++)
		assert_int_equal(enter_as(f, 1, i, STACK - i * 16), 0);
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(enter_as(f, 1, i, STACK - OTHER - i * 16), 0);
	assert_int_equal(mark_functions_dropped(f), 0);
	assert_int_equal(n, 0);
	/* The first one ends what is too much, the others have PARTS each. */
	assert_int_equal(leave_as(f, 1, HALF / 2 - 1, STACK - (HALF / 2 - 1) * 16), 0);
	assert_int_equal(n, 1000 + 1);
	for (uint64_t i = HALF / 2 - 1; i-- > 0;) {
		before = n;
		assert_int_equal(leave_as(f, 1, i, STACK - i * 16), 0);
		assert_int_equal(n - before, PARTS + 1);
	}
	/* What is left of the other stack is found by its own ends. */
	before = n;
	for (uint64_t i = PARTS; i-- > 0;)
		assert_int_equal(leave_as(f, 1, i, STACK - OTHER - i * 16), 0);
	assert_int_equal(n - before, PARTS);
	assert_int_equal(mark_functions_end(f), 0);
	assert_int_equal(n - before, PARTS);
	(void)mark_functions_free(f);
}

/* A function below too many functions of another stack ends with its thread, a function below fewer by its own end. */
static void far_down(void **state)
{
	enum { OTHER = 1 << 30, FAR = 1024 };

	(void)state;
	for (int more = 0; more < 2; more++) {
		size_t n = 0;
		struct mark_functions *f = begin_counting(&n, NULL);

		now = 0;
		assert_int_equal(enter_as(f, 1, 7, STACK), 0);
		for (uint64_t i = 0; i < FAR - 1 + (uint64_t)more; i++)
			assert_int_equal(enter_as(f, 1, i, STACK - OTHER - i * 16), 0);
		assert_int_equal(leave_as(f, 1, 7, STACK), 0);
		assert_int_equal(n, more ? 0 : FAR);
		assert_int_equal(mark_functions_end(f), 0);
		assert_int_equal(n, more ? FAR + 1 : FAR + 128);
		(void)mark_functions_free(f);
	}
}

/* longjmp() out of a deep recursion is not a search: all that was left ends at once. */
static void left_deep_down(void **state)
{
	enum { DEEP = MARK_FUNCTIONS_DEPTH - 10 };
	size_t n = 0;
	struct mark_functions *f = begin_counting(&n, NULL);

	(void)state;
	now = 0;
	for (uint64_t i = 0; i < DEEP; i++)
		assert_int_equal(enter_as(f, 1, i, STACK - i * 16), 0);
	assert_int_equal(enter_as(f, 1, 5000, STACK - 16), 0);
	assert_int_equal(n, DEEP - 1);
	for (uint64_t i = 2; i < DEEP; i++)
		assert_int_equal(enter_as(f, 1, i, STACK - i * 16), 0);
	assert_int_equal(leave_as(f, 1, 0, STACK), 0);
	assert_int_equal(n, 2 * (DEEP - 1) + 1);
	(void)mark_functions_free(f);
}

/* All programs of a recording share the room for open functions; it comes back when functions end. */
static void shared_room(void **state)
{
	size_t n = 0, rooms = 0;
	struct mark_functions *f = begin_counting(&n, &rooms), *g = begin_counting(&n, &rooms);
	uint32_t threads = MARK_FUNCTIONS_OPEN / MARK_FUNCTIONS_DEPTH;

	(void)state;
	now = 0;
	for (uint32_t tid = 1; tid <= threads + 20; tid++) {
		for (uint64_t i = 0; i < MARK_FUNCTIONS_DEPTH; i++)
			assert_int_equal(enter_as(f, tid, i, STACK - i * 16), 0);
		assert_true(rooms <= MARK_FUNCTIONS_OPEN);
	}
	assert_int_equal(rooms, MARK_FUNCTIONS_OPEN);
	assert_int_equal(mark_functions_dropped(f), 20 * MARK_FUNCTIONS_DEPTH);
	assert_int_equal(enter_as(g, 1, 1, STACK), 0);
	assert_int_equal(mark_functions_dropped(g), 1);
	assert_int_equal(n, 0);
	/* One thread returns: another program has room. */
	for (uint64_t i = MARK_FUNCTIONS_DEPTH; i-- > 0;)
		assert_int_equal(leave_as(f, 3, i, STACK - i * 16), 0);
	assert_int_equal(n, MARK_FUNCTIONS_DEPTH);
	assert_true(rooms <= MARK_FUNCTIONS_OPEN - MARK_FUNCTIONS_DEPTH + 64);
	assert_int_equal(enter_as(g, 1, 1, STACK), 0);
	assert_int_equal(mark_functions_dropped(g), 1);
	assert_int_equal(mark_functions_thread_end(f, 4, now), 0);
	assert_true(rooms <= MARK_FUNCTIONS_OPEN - 2 * MARK_FUNCTIONS_DEPTH + 100);
	(void)mark_functions_free(f);
	assert_int_equal(rooms, 16);
	(void)mark_functions_free(g);
	assert_int_equal(rooms, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nested),
		cmocka_unit_test(thrown_through_five),
		cmocka_unit_test(jumped_to_the_end),
		cmocka_unit_test(jumped_in_a_loop),
		cmocka_unit_test(inlined),
		cmocka_unit_test(alloca_between),
		cmocka_unit_test(jumped_into_a_larger_frame),
		cmocka_unit_test(ends_by_jump),
		cmocka_unit_test(exception_reported),
		cmocka_unit_test(alternate_stack),
		cmocka_unit_test(coroutines),
		cmocka_unit_test(lost_end),
		cmocka_unit_test(thread_end),
		cmocka_unit_test(min_duration),
		cmocka_unit_test(bounds),
		cmocka_unit_test(many_parts),
		cmocka_unit_test(far_down),
		cmocka_unit_test(left_deep_down),
		cmocka_unit_test(shared_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
