/* test-python.c - CPython's frames by memory made by hand: stacks, and memory that is wrong. */
#include "tests/unit/unwinder/native-calls.h"
#include "tests/unit/unwinder/python-program.h"

static void test_stack(void **state)
{
	struct fixture *f = *state;

	for (int minor = 11; minor <= 15; minor++) {
		struct program p;

		put_program(f, &p, minor);
		/* One reading is not evidence of what was there at the sample. */
		run(f, SMALL);
		EXPECT(f, SMALL, GUESSED(p.f), LOOP, CALLED(SMALL + 1), LOOP, CALLED(ROOTED + 1));
		assert_true(f->res.lacks_functions);
		/* Nor are many, as long as nothing has run between them: all samples are of a time before the first. */
		for (size_t i = 0; i < SEEN_OFTEN; i++)
			run_often(f, 1);
		EXPECT(f, SMALL, GUESSED(p.f), LOOP, CALLED(SMALL + 1), LOOP, CALLED(ROOTED + 1));
		run_often(f, SEEN_SOME);
		EXPECT(f, SMALL, GUESSED(p.f), GUESSED(p.g), CALLED(SMALL + 1), GUESSED(p.main),
		       CALLED(ROOTED + 1));
		/* The same words before and after: proved. */
		f->snapshot.time = UINT64_MAX;
		run_often(f, SEEN_OFTEN);
		EXPECT(f, SMALL, NAMED(p.f), NAMED(p.g), CALLED(SMALL + 1), NAMED(p.main),
		       CALLED(ROOTED + 1));
		assert_false(f->res.lacks_functions);
		uw_engine_set(f->engine, &(struct uw_settings){.native_frames = true});
		run(f, SMALL);
		EXPECT(f, SMALL, CALLED(FRAMED + 1), NAMED(p.f), NAMED(p.g), CALLED(SMALL + 1),
		       CALLED(FRAMED + 1), NAMED(p.main), CALLED(ROOTED + 1));
		uw_engine_set(f->engine, &(struct uw_settings){.native_frames = false});
		uw_module_unref(p.module);
	}
}

static bool is_noted(const struct fixture *f, uint64_t callee, uint64_t caller)
{
	const struct native_script *s = container_of(f->engine, struct native, engine)->script;

	for (size_t i = 0; i < SCRIPT_CALLEES; i++)
		for (uint32_t k = 0; k < s->callees[i].n; k++)
			if ((s->callees[i].id | UW_FRAME_SCRIPT) == NAMED(callee) &&
			    (s->callees[i].callers[k].id | UW_FRAME_SCRIPT) == NAMED(caller))
				return true;
	return false;
}

/* f is a generator, which 3.11 has C code run.  g has made it, by a call on CPython's stack: it has not called it. */
static void test_generator(void **state)
{
	struct fixture *f = *state;

	for (int minor = 11; minor <= 15; minor++) {
		struct program p;

		put_program(f, &p, minor);
		py_set(&py, p.f + 48, 0x20, 4);
		run(f, SMALL);
		assert_int_equal(is_noted(f, p.f, p.g), minor > 11);
		uw_module_unref(p.module);
	}
}

/* The object of a generator of 3.11, before it is run: g does not seem to have called it. */
static void test_generator_object(void **state)
{
	struct fixture *f = *state;
	struct program p;

	put_program(f, &p, 11);
	py_set(&py, p.f_frame + py_owner(&py), 1, 1);
	f->snapshot.time = UINT64_MAX;
	run_often(f, SEEN_OFTEN);
	EXPECT(f, SMALL, NAMED(p.f), LOOP, CALLED(SMALL + 1), NAMED(p.main), CALLED(ROOTED + 1));
	uw_module_unref(p.module);
}

/* f is called by g and by another function in turn, at the same address: either would be a guess, and the proved caller
 * of both remains. */
static void test_two_callers(void **state)
{
	struct fixture *f = *state;

	for (int minor = 11; minor <= 15; minor++) {
		const uint64_t code = minor == 11 ? 32 : 0;
		struct program p;
		uint64_t h, h_frame;

		put_program(f, &p, minor);
		h = py_code(&py, py_string(&py, "h", false), py_word(&py, p.f + 112), 9);
		/* f < g < h, which is the run's first */
		h_frame = py_frame(&py, h, py_word(&py, p.g_frame + (minor == 11 ? 48 : 8)), true);
		py_set(&py, p.g_frame + (minor == 11 ? 48 : 8), h_frame, 8);
		if (minor == 11)
			py_set(&py, p.g_frame + 68, 0, 1);
		f->snapshot.time = UINT64_MAX;
		for (size_t i = 0; i < SEEN_OFTEN; i++) {
			py_set(&py, p.g_frame + code, (i & 1 ? p.other : p.g) | (minor >= 14), 8);
			run_often(f, 1);
		}
		EXPECT(f, SMALL, NAMED(p.f), LOOP, NAMED(h), CALLED(SMALL + 1), NAMED(p.main),
		       CALLED(ROOTED + 1));
		uw_module_unref(p.module);
	}
}

/* The outer run's first frame is @frame. */
static void put_outer_run(struct fixture *f, const struct program *p, int minor, uint64_t frame)
{
	put_entry(f, INNER + ENTRY, p->f_frame, minor == 11 ? word_address(OUTER + ENTRY) : frame);
	if (minor == 11) {
		put_entry(f, OUTER + ENTRY, frame, py.version_at);
		py_set(&py, p->g_frame + 48, frame, 8);
	}
}

/* The outer run is in a function that main has called, and which is often another one: main, the thread's outermost function, is
 * proved, and the loop's frame stands for what it has called.  Behind main there is nothing. */
static void test_outermost(void **state)
{
	struct fixture *f = *state;

	for (int minor = 11; minor <= 15; minor++) {
		const uint64_t code = minor == 11 ? 32 : 0;
		struct program p;
		uint64_t called;

		put_program(f, &p, minor);
		called = py_frame(&py, p.g, p.main_frame, false);
		put_outer_run(f, &p, minor, called);
		for (size_t i = 0; i < SEEN_OFTEN; i++) {
			py_set(&py, called + code, (i & 4 ? p.other : p.g) | (minor >= 14), 8);
			f->snapshot.time = clock_ns(CLOCK_REALTIME);
			run_often(f, 1);
		}
		EXPECT(f, SMALL, NAMED(p.f), NAMED(p.g), CALLED(SMALL + 1), LOOP, NAMED(p.main),
		       CALLED(ROOTED + 1));
		assert_true(f->res.lacks_functions);
		uw_module_unref(p.module);
		/* A list that ends in another frame than the thread's first is another run's. */
		put_program(f, &p, minor);
		called = py_frame(&py, p.main, minor == 11 ? 0 : word_address(OUTER + ENTRY), true);
		put_outer_run(f, &p, minor, called);
		f->snapshot.time = UINT64_MAX;
		run_often(f, SEEN_OFTEN);
		EXPECT(f, SMALL, NAMED(p.f), NAMED(p.g), CALLED(SMALL + 1), NAMED(p.main), LOOP,
		       CALLED(ROOTED + 1));
		uw_module_unref(p.module);
	}
}

/* The register of the instruction has something else during a call: the loop's stack has it, in the slot that its code
 * behind the call reads. */
static void test_slots(void **state)
{
	struct fixture *f = *state;

	for (int minor = 11; minor <= 15; minor++) {
		const uint64_t code = minor == 11 ? 32 : 0;
		struct program p;

		put_program(f, &p, minor);
		run(f, SMALL); /* f is known */
		f->regs[UW_X86_R8 + 4] = py.none;
		py_set(&py, p.f_frame + code, p.other, 8);
		run(f, SMALL); /* and other */
		EXPECT(f, SMALL, LOOP, CALLED(SMALL + 1), LOOP, CALLED(ROOTED + 1));
		f->stack[INNER + 2] = py_bytecode(&py, p.f) + 10; /* 0x10 */
		run(f, SMALL);
		EXPECT(f, SMALL, GUESSED(p.f), LOOP, CALLED(SMALL + 1), LOOP, CALLED(ROOTED + 1));
		/* Two functions: the code at the return address is not there, which would show the right one. */
		f->stack[INNER + 1] = py_bytecode(&py, p.other) + 10;
		run(f, SMALL);
		EXPECT(f, SMALL, LOOP, CALLED(SMALL + 1), LOOP, CALLED(ROOTED + 1));
		f->stack[INNER + 1] = f->stack[INNER + 2] = 0;
		uw_module_unref(p.module);
	}
}

/* Where a run of the loop begins the register of the instruction is the next run's still: it shows no function. */
static void test_begins(void **state)
{
	struct fixture *f = *state;

	for (int minor = 11; minor <= 15; minor++) {
		struct program p;

		put_program(f, &p, minor);
		run(f, FRAMED);
		assert_int_equal(f->frames[0], FRAMED);
		assert_int_equal(f->frames[1], CALLED(SMALL + 1));
		uw_module_unref(p.module);
	}
}

/* Words that C code has pushed look like the _PyCFrame of the inner run: they lead to that, which is not the next one. */
static void test_pushed(void **state)
{
	struct fixture *f = *state;
	struct program p;

	put_program(f, &p, 11);
	f->stack[INNER + 2] = p.f_frame;
	f->stack[INNER + 3] = word_address(INNER + ENTRY);
	run_often(f, SEEN_SOME);
	EXPECT(f, SMALL, GUESSED(p.f), GUESSED(p.g), CALLED(SMALL + 1), GUESSED(p.main),
	       CALLED(ROOTED + 1));
	f->stack[INNER + 2] = f->stack[INNER + 3] = 0;
	uw_module_unref(p.module);
}

/* main, which is a guess, has a frame that would reach beyond the one of f: it is another function's. */
static void test_no_room(void **state)
{
	struct fixture *f = *state;

	for (int minor = 11; minor <= 15; minor++) {
		struct program p;

		put_program(f, &p, minor);
		py_set(&py, p.main + (minor == 11 ? 68 : 64), 60, 4);
		run_often(f, SEEN_SOME);
		assert_int_equal(f->frames[1], GUESSED(p.f));
		for (size_t i = 0; i < f->res.n_frames; i++)
			assert_int_not_equal(f->frames[i], GUESSED(p.main));
		assert_true(f->res.lacks_functions);
		uw_module_unref(p.module);
	}
}

/* The same, with some callers of f known: no more are shown than were found. */
static void test_no_room_again(void **state)
{
	struct fixture *f = *state;

	for (int minor = 11; minor <= 15; minor++) {
		const uint64_t previous = minor == 11 ? 48 : 8;
		struct program p;
		uint64_t other;

		put_program(f, &p, minor);
		py_set(&py, p.main + (minor == 11 ? 68 : 64), 60, 4);
		py_set(&py, p.g + 48, 0x20, 4);
		other = py_frame(&py, p.g, py_word(&py, p.g_frame + previous), true);
		for (size_t i = 0; i < 3 * SEEN_SOME; i++) {
			py_set(&py, p.f_frame + previous, i & 1 ? other : p.g_frame, 8);
			f->snapshot.time = clock_ns(CLOCK_REALTIME);
			run_often(f, 1);
			for (size_t k = 0; k < f->res.n_frames; k++)
				assert_true(uw_frame_pc(f->frames[k]) > 1);
		}
		uw_module_unref(p.module);
	}
}

/* The thread's own list of frames, by its state: f has been called by a generator, other.  The same in the list of the sample is no
 * evidence then: another generator may be in the memory of the one that called. */
static void test_current(void **state)
{
	enum { THREAD = 77 };
	struct fixture *f = *state;

	for (int minor = 11; minor <= 12; minor++) {
		struct program p;
		uint64_t interpreter, states, frame, generator, called;

		put_program(f, &p, minor);
		py_set(&py, p.other + 48, 0x20, 4);
		py_set(&py, p.g + 48, 0x20, 4);
		interpreter = py_heap(&py, 160);
		states = py_heap(&py, 160 + 8);
		frame = py_heap(&py, 24);
		generator =
			py_frame(&py, p.other,
				 minor == 11 ? p.main_frame : word_address(INNER + ENTRY), true);
		called = py_frame(&py, p.f, generator, false);
		py_set(&py, py.version_at + 48, interpreter, 8);
		py_set(&py, interpreter + (minor == 11 ? 16 : 72), states, 8);
		py_set(&py, states + (minor == 11 ? 160 : 144), THREAD, 8);
		py_set(&py, states + 56, frame, 8);
		py_set(&py, frame + (minor == 11 ? 8 : 0), called, 8);
		f->snapshot.thread = THREAD;
		run_often(f, 4); /* the first reading may be in several requests */
		assert_true(is_noted(f, p.f, p.other));
		assert_false(is_noted(f, p.f, p.g));
		uw_module_unref(p.module);
		/* Of a thread without a known state. */
		put_program(f, &p, minor);
		py_set(&py, p.g + 48, 0x20, 4);
		run(f, SMALL);
		assert_true(is_noted(f, p.f, p.g));
		/* States in a circle. */
		interpreter = py_heap(&py, 160);
		py_set(&py, py.version_at + 48, interpreter, 8);
		py_set(&py, interpreter + (minor == 11 ? 16 : 72), interpreter, 8);
		py_set(&py, interpreter + 8, interpreter, 8);
		run_often(f, 2);
		assert_int_equal(f->frames[1], GUESSED(p.f));
		uw_module_unref(p.module);
	}
	f->snapshot.thread = 0;
}

/* f has returned, and its frame is another one's by the time that it is read. */
static void test_reused(void **state)
{
	struct fixture *f = *state;

	for (int minor = 11; minor <= 15; minor++) {
		struct program p;

		put_program(f, &p, minor);
		py_set(&py, p.f_frame + (minor == 11 ? 32 : 0), p.other, 8);
		/* The next instruction is in f; its caller is not known. */
		run(f, SMALL);
		EXPECT(f, SMALL, GUESSED(p.f), LOOP, CALLED(SMALL + 1), LOOP, CALLED(ROOTED + 1));
		/* No frame is there any more. */
		py_set(&py, p.f_frame + py_owner(&py), 0xff, 1);
		run(f, SMALL);
		EXPECT(f, SMALL, GUESSED(p.f), LOOP, CALLED(SMALL + 1), LOOP, CALLED(ROOTED + 1));
		f->regs[UW_X86_R8 + 4] = 0;
		run(f, SMALL);
		EXPECT(f, SMALL, LOOP, CALLED(SMALL + 1), LOOP, CALLED(ROOTED + 1));
		assert_true(f->res.lacks_functions);
		uw_module_unref(p.module);
	}
}

/* What a stack needs was needed by the one before: one request reads it.  Stacks of one batch share it. */
static void test_pages_together(void **state)
{
	struct fixture *f = *state;
	struct uw_snapshot snapshots[UW_BATCH];
	struct uw_result results[UW_BATCH];
	uint64_t frames[UW_BATCH][FRAMES];

	for (int minor = 11; minor <= 15; minor++) {
		uint64_t first;
		struct program p;

		put_program(f, &p, minor);
		run(f, SMALL);
		first = py.reads;
		assert_true(first > 1);
		py.page_reads = 0;
		for (size_t i = 1; i <= 5; i++) {
			run(f, SMALL);
			assert_int_equal(py.page_reads, i);
		}
		for (size_t i = 0; i < UW_BATCH; i++) {
			snapshots[i] = f->snapshot;
			results[i] = (struct uw_result){.frames = frames[i], .max_frames = FRAMES};
		}
		assert_int_equal(uw_unwind_batch(f->engine, snapshots, UW_BATCH, results), 0);
		assert_int_equal(py.page_reads, 6);
		assert_int_equal(py.reads, first);
		assert_int_equal(results[UW_BATCH - 1].n_frames, f->res.n_frames);
		uw_module_unref(p.module);
	}
}

/* As many frames as a program has: what was read of each is kept. */
static void test_pasts(void **state)
{
	struct native_script *s = calloc(1, sizeof(*s));
	struct fixture *f = *state;
	const struct walk w = {.snapshot = &f->snapshot};
	uint64_t code, words;

	assert_non_null(s);
	s->serial = 7;
	for (uint64_t readings = 1; readings <= SEEN_SOME; readings++) {
		s->sampled = readings * NSEC_PER_SEC - 1;
		s->read_at = readings * NSEC_PER_SEC;
		for (uint64_t i = 1; i <= SCRIPT_PASTS / 4; i++)
			script_note(s, container_of(f->engine, struct native, engine), i, i + 1,
				    i + 2);
	}
	for (uint64_t i = 1; i <= SCRIPT_PASTS / 4; i++) {
		assert_int_not_equal(script_usual(s, &w, i, &code, &words), SCRIPT_UNUSUAL);
		assert_int_equal(code, i + 1);
		assert_int_equal(words, i + 2);
	}
	free(s);
}

/* A frame that read the same before the sample and after, but is often another one, is no evidence. */
static void test_flips(void **state)
{
	struct native_script *s = calloc(1, sizeof(*s));
	struct fixture *f = *state;
	const struct native *e = container_of(f->engine, struct native, engine);
	const struct walk w = {.snapshot = &f->snapshot};

	assert_non_null(s);
	s->serial = 7;
	f->snapshot.time = UINT64_MAX;
	for (uint64_t i = 0; i < 2 * SEEN_OFTEN; i++) {
		s->sampled = s->read_at + 1;
		s->read_at += NSEC_PER_SEC;
		script_note(s, e, 1, i < SEEN_OFTEN ? i & 4 : 8, 0);
		if (i == SEEN_OFTEN - 1) {
			assert_true(script_flips(s, 1));
			assert_false(script_held(s, &w, 1));
		}
	}
	assert_false(script_flips(s, 1));
	assert_true(script_held(s, &w, 1));
	free(s);
}

/* Frames that lead in a circle, to nothing, or out of the process: the loop's own frame stays, and nothing is read without
 * end. */
static void test_wrong_frames(void **state)
{
	struct fixture *f = *state;

	for (int minor = 11; minor <= 15; minor++) {
		const uint64_t previous = minor == 11 ? 48 : 8;
		struct program p;

		put_program(f, &p, minor);
		py_set(&py, p.g_frame + previous, p.f_frame, 8);
		py_set(&py, p.g_frame + (minor == 11 ? 68 : py_owner(&py) + 1), 0, 1);
		run(f, SMALL);
		assert_int_equal(f->res.outcome, UW_WHOLE);
		run_often(f, SEEN_OFTEN);
		assert_int_equal(f->res.n_frames, FRAMES);
		uw_module_unref(p.module);
		put_program(f, &p, minor);
		py_set(&py, p.g_frame + previous, 0, 8);
		run(f, SMALL);
		EXPECT(f, SMALL, GUESSED(p.f), LOOP, CALLED(SMALL + 1), LOOP, CALLED(ROOTED + 1));
		py_set(&py, p.f_frame + previous, UINT64_MAX - 7, 8);
		py.reads = 0;
		run(f, SMALL);
		EXPECT(f, SMALL, GUESSED(p.f), LOOP, CALLED(SMALL + 1), LOOP, CALLED(ROOTED + 1));
		assert_true(py.reads <= 8);
		f->regs[UW_X86_BX] = PY_BASE - 8;
		f->regs[UW_X86_R8 + 4] = 3;
		run(f, SMALL);
		assert_int_equal(f->frames[1], CALLED(FRAMED + 1));
		uw_module_unref(p.module);
	}
}

/* The frames of the sample itself: proved, whatever the process has in their place by now. */
static void test_exact(void **state)
{
	struct fixture *f = *state;

	for (int minor = 11; minor <= 15; minor++) {
		const uint64_t entry = minor == 11 ? 1ull << 48 : 0;
		uint64_t words[3 * UW_PYTHON_WORDS];
		struct program p;

		put_program(f, &p, minor);
		memcpy(words,
		       (uint64_t[]){SEEN_AT(p.f_frame, p.f), p.f, p.g_frame,
				    SEEN_AT(p.g_frame, p.g), p.g,
				    (minor == 11 ? p.main_frame : word_address(INNER + ENTRY)) |
					    entry,
				    SEEN_AT(p.main_frame, p.main), p.main,
				    (minor == 11 ? 0 : word_address(OUTER + ENTRY)) | entry},
		       sizeof(words));
		f->snapshot.python = words;
		f->snapshot.n_python = 3;
		memset(py.bytes + (p.main_frame - PY_BASE), 0xff, 72);
		memset(py.bytes + (p.f_frame - PY_BASE), 0xff, 72);
		memset(py.bytes + (p.g_frame - PY_BASE), 0xff, 72);
		f->regs[UW_X86_R8 + 4] = 0;
		run(f, SMALL);
		EXPECT(f, SMALL, NAMED(p.f), NAMED(p.g), CALLED(SMALL + 1), NAMED(p.main),
		       CALLED(ROOTED + 1));
		assert_false(f->res.lacks_functions);
		/* The register has a frame that is made or freed by the call of C code. */
		f->regs[UW_X86_BX] = 0x10;
		run(f, SMALL);
		EXPECT(f, SMALL, NAMED(p.f), NAMED(p.g), CALLED(SMALL + 1), NAMED(p.main),
		       CALLED(ROOTED + 1));
		/* The same in the loop itself, which is not set yet: the run has no function. */
		run(f, FRAMED);
		assert_int_equal(f->frames[0], FRAMED);
		assert_int_equal(f->frames[1], CALLED(SMALL + 1));
		/* A frame that is owned by the C stack, where it is not. */
		f->regs[UW_X86_BX] = p.f_frame;
		words[2] |= 3ull << 56;
		run(f, SMALL);
		assert_int_equal(f->frames[1], CALLED(FRAMED + 1));
		f->snapshot.n_python = 0;
		uw_module_unref(p.module);
	}
}

/* Words in front of the inner run's entry frame: @hostile: half of the words begin something that looks like one. */
static uint64_t *widen(struct fixture *f, const struct program *p, size_t words, bool hostile)
{
	uint64_t *wide = calloc(WORDS + words, sizeof(*wide));

	assert_non_null(wide);
	memcpy(wide, f->stack, (INNER + 1) * sizeof(*wide));
	memcpy(wide + INNER + 1 + words, f->stack + INNER + 1, (WORDS - INNER - 1) * sizeof(*wide));
	for (size_t i = 0; hostile && i + 128 < words; i++) /* too far from the return address */
		wide[INNER + 1 + i] = i & 8 ? 3ull << 48 : py.none;
	wide[INNER_RA - 1 + words] += 8 * words;
	f->regs[UW_X86_BP] += 8 * words;
	py_set(&py, p->main_frame + 8, word_address(OUTER + ENTRY + words), 8);
	f->snapshot.stack = (uint8_t *)wide;
	f->snapshot.stack_len = (uint32_t)((WORDS + words) * sizeof(*wide));
	return wide;
}

/* A stack made to cost time: the search for entry frames has an end. */
static void test_many_entries(void **state)
{
	struct fixture *f = *state;

	for (int hostile = 0; hostile < 2; hostile++) {
		struct program p;
		uint64_t *wide;

		put_program(f, &p, 13);
		py_set(&py, p.g_frame + 8, 0, 8); /* the entry frame is searched */
		wide = widen(f, &p, 64 << 10, hostile);
		run_often(f, SEEN_SOME);
		EXPECT(f, SMALL, GUESSED(p.f), GUESSED(p.g), CALLED(FRAMED + 1), CALLED(SMALL + 1),
		       hostile ? CALLED(FRAMED + 1) : GUESSED(p.main), CALLED(ROOTED + 1));
		f->snapshot.stack = (uint8_t *)f->stack;
		f->snapshot.stack_len = sizeof(f->stack);
		free(wide);
		uw_module_unref(p.module);
	}
}

/* CPython's own code between a class and its __init__ is left out. */
static void test_hidden(void **state)
{
	struct fixture *f = *state;
	struct program p;
	uint64_t text;

	put_program(f, &p, 13);
	text = py_string(&py, "__init__", false);
	py_set(&py, p.g + 112, text, 8);
	py_set(&py, p.g + 128, text, 8);
	run_often(f, SEEN_SOME);
	EXPECT(f, SMALL, GUESSED(p.f), CALLED(SMALL + 1), GUESSED(p.main), CALLED(ROOTED + 1));
	uw_module_unref(p.module);
	/* And 3.12's in front of a run's first function: NOP, INTERPRETER_EXIT, RESUME. */
	put_program(f, &p, 12);
	py_set(&py, p.g + 16, 3, 8);
	py_set(&py, py_bytecode(&py, p.g), 9, 1);
	run_often(f, SEEN_SOME);
	EXPECT(f, SMALL, GUESSED(p.f), CALLED(SMALL + 1), GUESSED(p.main), CALLED(ROOTED + 1));
	uw_module_unref(p.module);
}

/* The layout is waited for where a frame is in the interpreter's file. */
static void test_pending(void **state)
{
	struct fixture *f = *state;
	struct uw_module *module;
	struct program p;

	put_program(f, &p, 12);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, UW_PYTHON_PATH, NULL, &module), 0);
	fixture_space(f, 6, &py.memory);
	uw_space_set_script(f->space, module);
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 5); /* text_of() is not python3 */
	uw_module_set_unreadable(module);
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 5);
	uw_module_unref(module);
	uw_module_unref(p.module);
}

/* ---- the time for all processes ---- */

enum { OTHERS = 20, PARTS = 10 };
#define TIME (100 * NSEC_PER_SEC)
#define TICK (NSEC_PER_SEC / 10)
static struct py_process others[OTHERS]; /* memory as that of the program */
static uint64_t requests;		 /* that the next reading takes */

static ssize_t read_costly(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	memory->n_reads += requests;
	requests = 0;
	return py_read(memory, address, to, len);
}

/* Are the functions of a sample of @process shown, for which reading takes @n requests? */
static bool shows(struct fixture *f, const struct program *p, struct py_process *process,
		  uint64_t n)
{
	requests = n;
	fixture_space(f, 6, &process->memory);
	uw_space_set_script(f->space, p->module);
	run(f, SMALL);
	assert_true(f->res.lacks_functions);
	if (f->frames[1] == GUESSED(p->f))
		return true;
	EXPECT(f, SMALL, LOOP, CALLED(SMALL + 1), LOOP, CALLED(ROOTED + 1));
	return false;
}

static void put_others(struct fixture *f, struct program *p)
{
	put_program(f, p, 12);
	for (size_t i = 0; i < OTHERS; i++) {
		others[i] = py;
		others[i].memory = (struct uw_memory){.read = read_costly};
	}
}

/* 10 ms a sample: one process does not take the time of another. */
static void test_time_of_one(void **state)
{
	struct fixture *f = *state;
	struct program p;

	put_others(f, &p);
	for (uint64_t tick = 0; tick < 3; tick++) {
		size_t n = 0;

		f->snapshot.time = TIME + tick * TICK;
		assert_true(shows(f, &p, &others[0], 0));
		for (size_t i = 0; i < PARTS; i++)
			n += shows(f, &p, &others[1], 500);
		assert_int_equal(n, 4);
		assert_true(shows(f, &p, &others[0], 0));
	}
	/* Alone it has all. */
	f->snapshot.time = TIME + 3 * TICK;
	assert_true(shows(f, &p, &others[1], 500));
	f->snapshot.time = TIME + 4 * TICK;
	for (size_t i = 0; i < 8; i++)
		assert_true(shows(f, &p, &others[1], i < 7 ? 250 : 2000));
	assert_false(shows(f, &p, &others[1], 500));
	uw_module_unref(p.module);
}

/* All processes together have a part of the time, however many there are. */
static void test_time_of_many(void **state)
{
	struct fixture *f = *state;
	struct program p;

	put_others(f, &p);
	for (uint64_t tick = 0; tick < 3; tick++) {
		size_t n = 0;

		f->snapshot.time = TIME + tick * TICK;
		for (size_t i = 0; i < 2 * OTHERS; i++)
			n += shows(f, &p, &others[i % OTHERS], 500);
		assert_int_equal(n, 8);
	}
	uw_module_unref(p.module);
}

/* Functions, or -ENOMEM: never the frames of the loop alone for want of memory. */
static void test_calls(void **state)
{
	struct native_calls c = {.f = *state, .pc = SMALL, .kind = UW_ENGINE_NATIVE};
	struct program p;

	put_program(c.f, &p, 12);
	native_calls_sweep("Python's functions", &c);
	assert_int_equal(c.frames[1], GUESSED(p.f));
	uw_module_unref(p.module);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_stack),	 TEST(test_outermost),
		TEST(test_generator),	 TEST(test_generator_object),
		TEST(test_two_callers),	 TEST(test_slots),
		TEST(test_reused),	 TEST(test_pages_together),
		TEST(test_pasts),	 TEST(test_flips),
		TEST(test_time_of_one),	 TEST(test_time_of_many),
		TEST(test_wrong_frames), TEST(test_many_entries),
		TEST(test_hidden),	 TEST(test_pending),
		TEST(test_exact),	 TEST(test_calls),
		TEST(test_begins),	 TEST(test_pushed),
		TEST(test_no_room),	 TEST(test_no_room_again),
		TEST(test_current),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
