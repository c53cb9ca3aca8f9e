/* test-python.c - CPython's frames by memory made by hand: stacks, and memory that is wrong.
 *
 * The loop of the stacks is `framed` of native-fixture.h: its frame ends at rbp + 16.  Its frame register is rbx, that
 * of the next instruction r12. */
#include <errno.h>
#include <time.h>

#include "tests/unit/unwinder/interpreter-module.h"
#include "tests/unit/unwinder/native-calls.h"
#include "tests/unit/unwinder/python-fixture.h"

#include "unwinder/regs.h"
#include "unwinder/script-frames.h"

static struct py_process py;

/* ---- stacks ---- */

/* A module as it is loaded, with the layout of @minor; the loop is at @loop. */
static struct uw_module *python_module(int minor, uint64_t loop)
{
	struct python *python;
	struct uw_python layout;
	struct uw_module *module;

	assert_int_equal(python_new(&py.memory, PY_BASE, &python), 0);
	layout = *python_layout(python);
	(void)python_free(python);
	assert_int_equal(layout.version, 0x300 + minor);
	layout.eval_start = loop;
	layout.eval_end = loop + 0x80;
	module = interpreter_module(UW_PYTHON_PATH, &layout, NULL);
	assert_non_null(module);
	assert_int_equal(uw_module_unwind_state(module), UW_MODULE_READY);
	return module;
}

/* The stack: small (C, called by g) < loop: f < g < small < loop: main < rooted.  Words of the stack. */
enum { INNER = 2, INNER_RA = 31, C_RA = 33, OUTER = 34, OUTER_RA = 63, ENTRY = 5 };

struct program {
	uint64_t f, g, main, other;	       /* code */
	uint64_t f_frame, g_frame, main_frame; /* Python frames */
	struct uw_module *module;
};

static uint64_t word_address(size_t word)
{
	return SP + 8 * word;
}

/* What a run of the loop has on the C stack, at word @at: its entry frame, or a _PyCFrame. */
static void put_entry(struct fixture *f, size_t at, uint64_t current, uint64_t outer)
{
	if (py.minor == 11) {
		f->stack[at + 1] = current;
		f->stack[at + 2] = outer;
		return;
	}
	py_frame_put(&py, (uint8_t *)&f->stack[at], py.minor == 12 ? py.trampoline : py.none, outer,
		     3, false);
	f->stack[at + 7] = py.minor == 12 ? py_bytecode(&py, py.trampoline) : 0x1234;
}

static void put_program(struct fixture *f, struct program *p, int minor)
{
	uint64_t inner = word_address(INNER + ENTRY), outer = word_address(OUTER + ENTRY), file;

	py_process_init(&py, minor);
	file = py_string(&py, "a.py", false);
	py.trampoline = py_code(&py, py_string(&py, "<trampoline>", false), file, 0);
	p->main = py_code(&py, py_string(&py, "main", false), file, 1);
	p->g = py_code(&py, py_string(&py, "g", false), file, 2);
	p->f = py_code(&py, py_string(&py, "f", false), file, 3);
	p->other = py_code(&py, py_string(&py, "other", false), file, 4);
	p->main_frame = py_root_frame(&py, p->main, minor == 11 ? 0 : outer);
	p->g_frame = py_frame(&py, p->g, minor == 11 ? p->main_frame : inner, true);
	p->f_frame = py_frame(&py, p->f, p->g_frame, false);
	f->stack[1] = FRAMED + 1;
	f->regs[UW_X86_BP] = word_address(INNER_RA - 1);
	put_entry(f, INNER + ENTRY, p->f_frame, minor == 11 ? outer : p->main_frame);
	f->stack[INNER_RA - 1] = word_address(OUTER_RA - 1);
	f->stack[INNER_RA] = SMALL + 1;
	f->stack[C_RA] = FRAMED + 1;
	put_entry(f, OUTER + ENTRY, p->main_frame, minor == 11 ? py.version_at : 0);
	f->stack[OUTER_RA] = ROOTED + 1;
	f->regs[UW_X86_BX] = p->f_frame;
	f->regs[UW_X86_R8 + 4] = py_bytecode(&py, p->f) + 10;
	fixture_space(f, 5, &py.memory);
	p->module = python_module(minor, FRAMED);
	uw_space_set_script(f->space, p->module);
	f->snapshot.time = 1; /* before all readings */
}

#define LOOP CALLED(FRAMED + 1)
/* A function is shown where several readings, some time apart, agree, and proved where many do. */
enum { SEEN_SOME = 10, SEEN_OFTEN = 40 };

/* The readings are of samples of these times, and the last one of the sample in hand.  They are so far apart that there is time for
 * each. */
static void run_often(struct fixture *f, size_t n)
{
	const uint64_t time = f->snapshot.time;

	for (size_t i = 0; i < n; i++) {
		uint64_t until;

		f->snapshot.time = i + 1 < n && time == 1 ? clock_ns(CLOCK_REALTIME) : time;
		interpreter_rests(f->engine);
		run(f, SMALL);
		until = clock_ns(CLOCK_MONOTONIC) + 2100000;
		while (clock_ns(CLOCK_MONOTONIC) < until)
			;
	}
}

#define NAMED(code) ((code) | py_sign(&py, code) | UW_FRAME_SCRIPT)
#define GUESSED(code) (NAMED(code) | UW_FRAME_GUESSED)

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
		run(f, SMALL);
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

#define SEEN_AT(frame, code) ((frame) | py_sign_number(&py, code) << 48)

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
		TEST(test_stack),	  TEST(test_outermost),
		TEST(test_generator),	  TEST(test_generator_object),
		TEST(test_two_callers),	  TEST(test_slots),
		TEST(test_reused),	  TEST(test_code_reused),
		TEST(test_code_together), TEST(test_pages_together),
		TEST(test_search),	  TEST(test_pasts),
		TEST(test_flips),	  TEST(test_time_of_one),
		TEST(test_time_of_many),  cmocka_unit_test(test_code_places),
		TEST(test_wrong_frames),  TEST(test_many_entries),
		TEST(test_hidden),	  TEST(test_pending),
		TEST(test_exact),	  TEST(test_exact_reused),
		TEST(test_first_reading), TEST(test_calls),
		TEST(test_begins),	  TEST(test_pushed),
		TEST(test_no_room),	  TEST(test_current),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
