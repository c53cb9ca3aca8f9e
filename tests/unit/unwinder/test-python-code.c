/* test-python-code.c - CPython's code objects (native-pycode.c): objects in the memory of others, and what is read of them again. */
#include "tests/unit/unwinder/python-program.h"

/* A function is freed, and another one is at its address: each has its own name. */
static void check_code_reused(struct fixture *f, bool together)
{
	for (int minor = 11; minor <= 15; minor++) {
		struct python *python;
		struct program p;
		struct noted noted;
		uint64_t before, now, name;

		put_program(f, &p, minor);
		py.memory.read_ranges = together ? py_read_ranges : NULL;
		assert_int_equal(python_new(&py.memory, PY_BASE, &python), 0);
		run(f, SMALL);
		before = f->frames[1];
		assert_int_equal(before, GUESSED(p.f));
		assert_int_equal(
			python_lines(python, &py.memory, uw_frame_pc(before), note, &noted), 1);
		assert_string_equal(noted.name, "f");
		/* Its name is where the other one was. */
		name = py_word(&py, p.f + 128);
		py_set(&py, name + (minor == 11 ? 48 : 40), 'h', 1);
		f->snapshot.time += NSEC_PER_SEC;
		run(f, SMALL);
		now = f->frames[1];
		assert_int_not_equal(now, before);
		assert_int_equal(now, GUESSED(p.f));
		assert_int_equal(python_lines(python, &py.memory, uw_frame_pc(now), note, &noted),
				 1);
		assert_string_equal(noted.name, "h");
		assert_int_equal(
			python_lines(python, &py.memory, uw_frame_pc(before), note, &noted), 0);
		/* A sample of an earlier time comes later: a third function is seen in time. */
		f->snapshot.time -= NSEC_PER_SEC / 100;
		run(f, SMALL);
		py_set(&py, name + (minor == 11 ? 48 : 40), 'i', 1);
		f->snapshot.time += NSEC_PER_SEC;
		run(f, SMALL);
		assert_int_not_equal(f->frames[1], now);
		now = f->frames[1];
		assert_int_equal(now, GUESSED(p.f));
		/* The object is gone: its samples keep what was read. */
		py_set(&py, p.f + 8, 0, 8);
		f->snapshot.time += NSEC_PER_SEC;
		run(f, SMALL);
		assert_int_equal(f->frames[1], now);
		(void)python_free(python);
		uw_module_unref(p.module);
	}
}

static void test_code_reused(void **state)
{
	check_code_reused(*state, false);
	check_code_reused(*state, true);
}

/* Another function is at the address than at the reading before: which one was there at a sample in between is not known. */
static void test_settled(void **state)
{
	struct fixture *f = *state;

	for (int minor = 11; minor <= 15; minor++) {
		struct program p;

		put_program(f, &p, minor);
		f->snapshot.time = clock_ns(CLOCK_REALTIME) + NSEC_PER_SEC;
		run(f, SMALL);
		assert_int_equal(f->frames[1], NAMED(p.f));
		py_set(&py, py_word(&py, p.f + 128) + (minor == 11 ? 48 : 40), 'h', 1);
		f->snapshot.time += NSEC_PER_SEC;
		run(f, SMALL);
		assert_int_equal(f->frames[1], GUESSED(p.f));
		f->snapshot.time += NSEC_PER_SEC / 2;
		run(f, SMALL);
		assert_int_equal(f->frames[1], NAMED(p.f));
		/* None is there, and then the same. */
		py_set(&py, p.f + 8, 0, 8);
		f->snapshot.time += NSEC_PER_SEC;
		run(f, SMALL);
		assert_int_equal(f->frames[1], GUESSED(p.f));
		py_set(&py, p.f + 8, py.code_type, 8);
		f->snapshot.time += NSEC_PER_SEC / 5;
		run(f, SMALL);
		assert_int_equal(f->frames[1], GUESSED(p.f));
		f->snapshot.time += NSEC_PER_SEC / 5;
		run(f, SMALL);
		assert_int_equal(f->frames[1], NAMED(p.f));
		uw_module_unref(p.module);
	}
}

/* Objects that were read some time ago are read again in one request. */
static void test_code_together(void **state)
{
	struct fixture *f = *state;

	for (int minor = 11; minor <= 15; minor++) {
		uint64_t first;
		struct program p;

		put_program(f, &p, minor);
		py.reads = py.range_reads = 0;
		run(f, SMALL);
		first = py.reads;
		run(f, SMALL);
		assert_int_equal(py.range_reads, 0);
		f->snapshot.time += NSEC_PER_SEC;
		run(f, SMALL);
		assert_int_equal(py.range_reads, 1);
		assert_int_equal(py.reads, first);
		run(f, SMALL);
		assert_int_equal(py.range_reads, 1);
		EXPECT(f, SMALL, GUESSED(p.f), LOOP, CALLED(SMALL + 1), LOOP, CALLED(ROOTED + 1));
		uw_module_unref(p.module);
	}
}

/* The word in the register of the instruction is in no function: it is not searched at each sample.  (Time is the program's: it is
 * searched again after 20 ms.) */
static void test_search(void **state)
{
	struct fixture *f = *state;

	uw_engine_set(f->engine, &(struct uw_settings){.clock = CLOCK_PROCESS_CPUTIME_ID});
	for (int minor = 11; minor <= 15; minor++) {
		struct program p;
		uint64_t first;

		put_program(f, &p, minor);
		py_set(&py, p.f_frame + (minor == 11 ? 32 : 0), p.other, 8);
		f->regs[UW_X86_R8 + 4] = PY_BASE + PY_BYTES - 8;
		run(f, SMALL);
		first = py.reads + py.page_reads;
		assert_true(first > 2);
		/* At each: the pages that were used, and the code behind the call, which is not there. */
		for (size_t i = 1; i <= 20; i++)
			run(f, SMALL);
		assert_true(py.reads + py.page_reads <= first + 3 * 20);
		EXPECT(f, SMALL, LOOP, CALLED(SMALL + 1), LOOP, CALLED(ROOTED + 1));
		uw_module_unref(p.module);
	}
}

/* As many functions as a program has: each keeps its place. */
static void test_code_places(void **state)
{
	enum { N = 400 };
	struct native_script *s = calloc(1, sizeof(*s));

	(void)state;
	assert_non_null(s);
	s->serial = 7;
	for (uint64_t i = 1; i <= N; i++)
		*script_function_slot(s, i * 208) = (struct script_function){
			.address = i * 208, .serial = s->serial, .read_at = i};
	for (uint64_t i = 1; i <= N; i++)
		assert_int_equal(script_function_slot(s, i * 208)->address, i * 208);
	/* A full table: the one that was read first goes. */
	for (size_t i = 0; i < SCRIPT_FUNCTIONS; i++)
		s->functions[i] = (struct script_function){
			.address = 1, .serial = s->serial, .read_at = 100 + i % SCRIPT_PLACES};
	assert_int_equal(script_function_slot(s, 12345)->read_at, 100);
	free(s);
}

/* What was not read before the sample, too, is a guess: the code object may be another one. */
static void test_first_reading(void **state)
{
	struct fixture *f = *state;

	for (int minor = 11; minor <= 15; minor++) {
		struct program p;

		put_program(f, &p, minor);
		run(f, SMALL);
		assert_int_equal(f->frames[1], GUESSED(p.f));
		f->snapshot.time = UINT64_MAX;
		run(f, SMALL);
		assert_int_equal(f->frames[1], NAMED(p.f));
		uw_module_unref(p.module);
	}
}

/* The code objects of a copied frame: of these it has the sign, whatever is at their addresses when the names are read. */
static void test_exact_reused(void **state)
{
	struct fixture *f = *state;

	for (int minor = 11; minor <= 15; minor++) {
		struct python *python;
		struct program p;
		struct noted noted;
		uint64_t words[UW_PYTHON_WORDS], seen, chars;

		put_program(f, &p, minor);
		assert_int_equal(python_new(&py.memory, PY_BASE, &python), 0);
		f->snapshot.python = words;
		f->snapshot.n_python = 1;
		memcpy(words, (uint64_t[]){SEEN_AT(p.f_frame, p.f), p.f, 0}, sizeof(words));
		seen = NAMED(p.f);
		run(f, SMALL);
		assert_int_equal(f->frames[1], seen);
		/* Another function has its place by now: the frame does not get that one's name. */
		chars = py_word(&py, p.f + 128) + (minor == 11 ? 48 : 40);
		py_set(&py, chars, 'h', 1);
		assert_int_not_equal(NAMED(p.f), seen);
		run(f, SMALL);
		assert_int_equal(f->frames[1], seen);
		assert_int_equal(python_lines(python, &py.memory, uw_frame_pc(seen), note, &noted),
				 0);
		/* A sample of that one. */
		words[0] = SEEN_AT(p.f_frame, p.f);
		run(f, SMALL);
		assert_int_equal(f->frames[1], NAMED(p.f));
		assert_int_equal(
			python_lines(python, &py.memory, uw_frame_pc(f->frames[1]), note, &noted),
			1);
		assert_string_equal(noted.name, "h");
		/* The memory is no code object any more. */
		py_set(&py, p.f + 8, 0, 8);
		run(f, SMALL);
		assert_int_equal(f->frames[1], NAMED(p.f));
		py_set(&py, p.f + 8, py.code_type, 8);
		/* The interpreter's own has no frame, a sign that is not known is no proof, nor is one of an address that cannot be. */
		words[0] |= (uint64_t)PYTHON_HIDDEN << 48;
		run(f, SMALL);
		assert_int_not_equal(f->frames[1] & ~UW_FRAME_GUESSED, NAMED(p.f));
		words[0] = p.f_frame;
		run(f, SMALL);
		assert_int_equal(f->frames[1], GUESSED(p.f));
		words[0] = SEEN_AT(p.f_frame, p.f);
		words[1] |= 1ull << 50;
		run(f, SMALL);
		assert_false(f->frames[1] & UW_FRAME_SCRIPT);
		f->snapshot.n_python = 0;
		(void)python_free(python);
		uw_module_unref(p.module);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_code_reused),
		TEST(test_settled),
		TEST(test_code_together),
		TEST(test_search),
		cmocka_unit_test(test_code_places),
		TEST(test_first_reading),
		TEST(test_exact_reused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
