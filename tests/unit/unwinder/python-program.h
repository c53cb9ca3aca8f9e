/* python-program.h - a program of CPython by memory made by hand, for test-python.c and test-python-code.c.
 *
 * The loop of the stacks is `framed` of native-fixture.h: its frame ends at rbp + 16.  Its frame register is rbx, that
 * of the next instruction r12. */
#pragma once

#include <errno.h>
#include <time.h>

#include "tests/unit/unwinder/interpreter-module.h"
#include "tests/unit/unwinder/native-fixture.h"
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
UNUSED static void run_often(struct fixture *f, size_t n)
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
#define SEEN_AT(frame, code) ((frame) | py_sign_number(&py, code) << 48)
