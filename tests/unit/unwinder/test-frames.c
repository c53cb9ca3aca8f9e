/* test-frames.c - PHP's and Ruby's frames by memory made by hand: stacks, and memory that is wrong.
 *
 * The loop of the stacks is `framed` of native-fixture.h: its frame ends at rbp + 16. */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/unwinder/interpreter-module.h"
#include "tests/unit/unwinder/native-fixture.h"
#include "tests/unit/unwinder/script-fixture.h"

#include "symbols/script-sign.h"

#include "unwinder/regs.h"

static struct sc_process sc;

/* ---- stacks ---- */

/* Ruby: the thread's innermost frame is at @current, other frames are in the page @frames. */
static struct {
	uint64_t vm, current, frames, before, after;
} torn;
enum { TORN_THREAD = 16, TORN_CONTEXT = 24, TORN_INNERMOST = 32 };

/* A module as it is loaded; the loop is at @loop. */
static struct uw_module *script_module(bool ruby, uint64_t loop)
{
	struct uw_script script;
	struct uw_module *module;

	assert_int_equal(sc_find(&sc, ruby, SC_BASE, &script), 0);
	script.eval_start = loop;
	script.eval_end = loop + 0x80;
	if (torn.vm) {
		script.current = torn.vm;
		script.thread = TORN_THREAD;
		script.context = TORN_CONTEXT;
		script.innermost = TORN_INNERMOST;
	}
	module = interpreter_module(ruby ? UW_RUBY_PATH : UW_PHP_PATH, NULL, &script);
	assert_non_null(module);
	assert_int_equal(uw_module_unwind_state(module), UW_MODULE_READY);
	return module;
}

/* The stack: small (C, called by g: map) < loop: f < g < small < loop: main < rooted.  Words of the stack. */
enum { INNER = 2, INNER_RA = 31, C_RA = 33, OUTER = 34, OUTER_RA = 63 };

struct program {
	uint64_t f, g, map, main, other;		  /* functions */
	uint64_t f_frame, g_frame, map_frame, main_frame; /* their frames */
	struct uw_module *module;
};

static uint64_t word_address(size_t word)
{
	return SP + 8 * word;
}

static void set_registers(struct fixture *f, uint64_t frame, uint64_t instruction)
{
	f->regs[UW_X86_R8 + 6] = sc.ruby ? instruction : frame;
	f->regs[UW_X86_R15] = sc.ruby ? frame : instruction;
}

static void put_stack(struct fixture *f, struct program *p)
{
	f->stack[1] = FRAMED + 1;
	f->regs[UW_X86_BP] = word_address(INNER_RA - 1);
	f->stack[INNER_RA - 1] = word_address(OUTER_RA - 1);
	f->stack[INNER_RA] = SMALL + 1;
	f->stack[C_RA] = FRAMED + 1;
	f->stack[OUTER_RA] = ROOTED + 1;
	fixture_space(f, 5, &sc.memory);
	p->module = script_module(sc.ruby, FRAMED);
	uw_space_set_script(f->space, p->module);
	f->snapshot.time = 0; /* not known: functions are taken as they are read */
}

static void put_php(struct fixture *f, struct program *p)
{
	uint64_t file;

	sc_php_init(&sc);
	file = sc_string(&sc, "a.php");
	p->main = sc_php_function(&sc, 0, NULL, file, 1);
	p->g = sc_php_function(&sc, 0, "g", file, 2);
	p->f = sc_php_function(&sc, 0, "f", file, 3);
	p->other = sc_php_function(&sc, 0, "other", file, 4);
	p->map = sc_php_internal(&sc, "map", SMALL);
	p->main_frame = sc_php_frame(&sc, p->main, sc_code(&sc, p->main) + 160, 0, true);
	p->map_frame = sc_php_frame(&sc, p->map, 0, p->main_frame, false);
	p->g_frame = sc_php_frame(&sc, p->g, sc_code(&sc, p->g) + 64, p->map_frame, true);
	p->f_frame = sc_php_frame(&sc, p->f, sc_code(&sc, p->f), p->g_frame, false);
	set_registers(f, p->f_frame, sc_code(&sc, p->f) + 96);
	put_stack(f, p);
	/* What the inner loop found in the registers; the same where it is the leaf. */
	f->stack[INNER + SC_SAVED_FRAME / 8] = f->stack[SC_SAVED_FRAME / 8] = p->main_frame;
	f->stack[INNER + SC_SAVED_NEXT / 8] = f->stack[SC_SAVED_NEXT / 8] =
		sc_code(&sc, p->main) + 160;
}

static uint32_t sign_of(uint64_t function)
{
	struct script_sign sign;
	struct uw_script script;
	struct vm_memory m;

	assert_int_equal(sc_find(&sc, sc.ruby, SC_BASE, &script), 0);
	assert_int_equal(vm_memory_begin(&m, &sc.memory, 8), 0);
	assert_true(script_sign(&m, &script, sc.ruby, function, &sign));
	vm_memory_end(&m);
	return sign.sign;
}

static uint64_t named(uint64_t function, uint64_t position)
{
	return uw_frame_of_script(uw_script_place(function, position, sign_of(function)));
}
#define GUESSED(function, position) (named(function, position) | UW_FRAME_GUESSED)
#define IN_C(function) named(function, UW_SCRIPT_NO_POSITION)

static void test_php(void **state)
{
	struct fixture *f = *state;
	struct program p;
	uint64_t until;

	put_php(f, &p);
	run(f, FRAMED);
	EXPECT(f, named(p.f, 3), GUESSED(p.g, 2), CALLED(SMALL + 1), IN_C(p.map), named(p.main, 5),
	       CALLED(ROOTED + 1));
	/* The same words before and after, some times: proved. */
	f->snapshot.time = UINT64_MAX;
	until = clock_ns(CLOCK_MONOTONIC) + 20 * NSEC_PER_SEC;
	do { /* readings count some time apart */
		interpreter_rests(f->engine);
		run(f, FRAMED);
	} while (f->frames[1] & UW_FRAME_GUESSED && clock_ns(CLOCK_MONOTONIC) < until);
	EXPECT(f, named(p.f, 3), named(p.g, 2), CALLED(SMALL + 1), IN_C(p.map), named(p.main, 5),
	       CALLED(ROOTED + 1));
	/* f has returned, and its frame is another one's: its callers are those that are proved. */
	sc_set(&sc, p.f_frame + 24, p.other, 8);
	run(f, FRAMED);
	EXPECT(f, named(p.f, 3), FRAMED, named(p.g, 2), CALLED(SMALL + 1), IN_C(p.map),
	       named(p.main, 5), CALLED(ROOTED + 1));
	assert_true(f->res.lacks_functions);
	sc_set(&sc, p.f_frame + 24, p.f, 8);
	uw_engine_set(f->engine, &(struct uw_settings){.native_frames = true});
	run(f, FRAMED);
	EXPECT(f, FRAMED, named(p.f, 3), named(p.g, 2), CALLED(SMALL + 1), IN_C(p.map),
	       CALLED(FRAMED + 1), named(p.main, 5), CALLED(ROOTED + 1));
	uw_module_unref(p.module);
}

/* The frames are another call's by now: the callers that the last readings have shown are guesses, then proved.  Readings begin at
 * the innermost frame as it is then. */
static void test_php_late(void **state)
{
	struct fixture *f = *state;
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + 20 * NSEC_PER_SEC;
	struct program p;

	put_php(f, &p);
	f->snapshot.time = UINT64_MAX;
	for (int proved = 0; proved < 2;) {
		uint64_t guess = proved ? 0 : UW_FRAME_GUESSED;

		assert_true(clock_ns(CLOCK_MONOTONIC) < until);
		sc_set(&sc, p.f_frame + 24, p.f, 8);
		sc_set(&sc, p.g_frame + 24, p.g, 8);
		sc_set(&sc, sc.globals + 488, p.f_frame, 8);
		interpreter_rests(f->engine);
		run(f, FRAMED);
		sc_set(&sc, p.f_frame + 24, p.other, 8);
		sc_set(&sc, p.g_frame + 24, p.other, 8);
		sc_set(&sc, sc.globals + 488, p.main_frame, 8);
		interpreter_rests(f->engine);
		run(f, FRAMED);
		if (f->res.lacks_functions) {
			assert_int_equal(f->frames[1], FRAMED);
			assert_int_equal(proved, 0);
		} else if (f->frames[1] == (named(p.g, 2) | guess)) {
			EXPECT(f, named(p.f, 3), named(p.g, 2) | guess, CALLED(SMALL + 1),
			       IN_C(p.map), named(p.main, 5), CALLED(ROOTED + 1));
			proved++;
		}
	}
	uw_module_unref(p.module);
}

/* Stacks meet another call's frame at an address only where it is there; readings in between show that it is not always. */
static void test_php_seldom(void **state)
{
	struct fixture *f = *state;
	struct program p;

	put_php(f, &p);
	f->snapshot.time = UINT64_MAX;
	run(f, FRAMED);
	for (int i = 0; i < 60; i++) { /* twice what proves a frame */
		usleep(3000);
		sc_set(&sc, p.f_frame + 24, p.f, 8);
		sc_set(&sc, p.g_frame + 24, p.g, 8);
		sc_set(&sc, p.g_frame, sc_code(&sc, p.g) + 64, 8);
		sc_set(&sc, sc.globals + 488, p.g_frame, 8);
		set_registers(f, p.main_frame, sc_code(&sc, p.main) + 160);
		interpreter_rests(f->engine);
		run(f, FRAMED);
		sc_set(&sc, p.f_frame + 24, p.other, 8);
		sc_set(&sc, p.g_frame + 24, p.other, 8);
		sc_set(&sc, p.g_frame, sc_code(&sc, p.other) + 64, 8);
		sc_set(&sc, sc.globals + 488, p.main_frame, 8);
		set_registers(f, p.f_frame, sc_code(&sc, p.f) + 96);
		usleep(3000);
		interpreter_rests(f->engine);
		run(f, FRAMED);
		assert_int_equal(f->frames[0], named(p.f, 3));
		for (uint32_t k = 1; k < f->res.n_frames; k++)
			assert_int_not_equal(f->frames[k], named(p.other, 2));
	}
	uw_module_unref(p.module);
}

/* The innermost frame is in C: the pointer to it leads there. */
static void test_php_leaf_in_c(void **state)
{
	struct fixture *f = *state;
	struct program p;
	uint64_t inner;

	put_php(f, &p);
	inner = sc_php_frame(&sc, p.map, 0, p.f_frame, false);
	sc_set(&sc, sc.globals + 488, inner, 8);
	run(f, SMALL);
	EXPECT(f, SMALL, IN_C(p.map), named(p.f, 3), GUESSED(p.g, 2), CALLED(SMALL + 1),
	       IN_C(p.map), named(p.main, 5), CALLED(ROOTED + 1));
	/* A function with other code is not on the stack. */
	sc_set(&sc, p.map + 72, POPPED, 8);
	uw_engine_forget(f->engine, NULL);
	uw_module_unref(p.module);
}

/* The frames of the sample itself: proved, whatever the process has in their place by now. */
static void test_php_exact(void **state)
{
	struct fixture *f = *state;
	uint64_t words[5 * UW_PYTHON_WORDS];
	struct program p;

	put_php(f, &p);
	memcpy(words,
	       (uint64_t[]){p.f_frame, p.f, 0, p.g_frame, p.g | 1ull << 48, sc_code(&sc, p.g) + 96,
			    p.map_frame, p.map, 0, p.main_frame, p.main | 1ull << 48, 0, 0, 0, 0},
	       sizeof(words));
	f->snapshot.python = words;
	f->snapshot.n_python = 4;
	memset(sc.bytes + (p.f_frame - SC_BASE), 0xff, 80);
	memset(sc.bytes + (p.g_frame - SC_BASE), 0xff, 80);
	run(f, FRAMED);
	EXPECT(f, named(p.f, 3), named(p.g, 3), CALLED(SMALL + 1), IN_C(p.map), named(p.main, 5),
	       CALLED(ROOTED + 1));
	/* The copy ends before the first frame of the run. */
	f->snapshot.n_python = 1;
	run(f, FRAMED);
	EXPECT(f, named(p.f, 3), FRAMED, CALLED(SMALL + 1), IN_C(p.map), named(p.main, 5),
	       CALLED(ROOTED + 1));
	/* map jumps to SMALL: no frame is of its own code. */
	f->snapshot.n_python = 4;
	sc_set(&sc, p.map + 72, SAVES, 8);
	uw_module_unref(p.module);
	fixture_space(f, 6, &sc.memory);
	p.module = script_module(sc.ruby, FRAMED);
	uw_space_set_script(f->space, p.module);
	run(f, FRAMED);
	EXPECT(f, named(p.f, 3), named(p.g, 3), CALLED(SMALL + 1), IN_C(p.map), named(p.main, 5),
	       CALLED(ROOTED + 1));
	f->snapshot.n_python = 3; /* the copy ends before the loop's frame */
	run(f, FRAMED);
	EXPECT(f, named(p.f, 3), named(p.g, 3), CALLED(SMALL + 1), named(p.main, 5),
	       CALLED(ROOTED + 1));
	f->snapshot.n_python = 0;
	uw_module_unref(p.module);
}

/* A function in C that jumps to another one, in frames that are read late: as they are while the call is in hand, then as they were
 * in the last of these readings. */
static void test_php_jumped(void **state)
{
	struct fixture *f = *state;
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + 20 * NSEC_PER_SEC;
	struct program p;

	put_php(f, &p);
	sc_set(&sc, p.map + 72, SAVES, 8);
	run(f, FRAMED);
	EXPECT(f, named(p.f, 3), GUESSED(p.g, 2), CALLED(SMALL + 1),
	       GUESSED(p.map, UW_SCRIPT_NO_POSITION), named(p.main, 5), CALLED(ROOTED + 1));
	f->snapshot.time = UINT64_MAX;
	do {
		assert_true(clock_ns(CLOCK_MONOTONIC) < until);
		sc_set(&sc, p.main_frame, sc_code(&sc, p.main) + 160, 8);
		interpreter_rests(f->engine);
		run(f, FRAMED);
		sc_set(&sc, p.main_frame, sc_code(&sc, p.main) + 96, 8);
		interpreter_rests(f->engine);
		run(f, FRAMED);
	} while (f->res.n_frames < 6);
	EXPECT(f, named(p.f, 3), FRAMED, CALLED(SMALL + 1), GUESSED(p.map, UW_SCRIPT_NO_POSITION),
	       named(p.main, 5), CALLED(ROOTED + 1));
	assert_true(f->res.lacks_functions); /* the callers of f are those of another call, too */
	uw_module_unref(p.module);
}

/* The memory of a function that was freed is another one's: of another name, alike in all else. */
static void rename_function(uint64_t function, char last)
{
	uint64_t name;

	memcpy(&name, sc.bytes + (function + 8 - SC_BASE), 8);
	sc_set(&sc, name + 24, (uint64_t)last, 1);
}

static void test_php_reused(void **state)
{
	struct fixture *f = *state;
	uint64_t words[3 * UW_PYTHON_WORDS], before, after;
	struct program p;

	put_php(f, &p);
	before = named(p.f, 3);
	f->snapshot.time = 1;
	run(f, FRAMED); /* which functions there were before the sample is not known */
	assert_int_equal(f->frames[0], before | UW_FRAME_GUESSED);
	f->snapshot.time = clock_ns(CLOCK_REALTIME); /* the clock of the engine by default */
	run(f, FRAMED);				     /* the same before and after */
	assert_int_equal(f->frames[0], before);
	assert_int_equal(f->frames[4], named(p.main, 5));
	rename_function(p.f, 'h');
	after = named(p.f, 3);
	assert_int_not_equal(after, before);
	f->snapshot.time = clock_ns(CLOCK_REALTIME);
	run(f, FRAMED);
	assert_int_equal(f->frames[0], after | UW_FRAME_GUESSED);
	f->snapshot.time = clock_ns(CLOCK_REALTIME);
	run(f, FRAMED);
	assert_int_equal(f->frames[0], after);
	/* The sample's frames have signs. */
	memcpy(words,
	       (uint64_t[]){p.f_frame | (uint64_t)sign_of(p.f) << 48, p.f, 0, p.g_frame,
			    p.g | 1ull << 48, sc_code(&sc, p.g) + 96, 0, 0, 0},
	       sizeof(words));
	f->snapshot.python = words;
	f->snapshot.n_python = 2;
	rename_function(p.f, 'i');
	f->snapshot.time = clock_ns(CLOCK_REALTIME);
	run(f, FRAMED); /* known from before */
	assert_int_equal(f->frames[0], after);
	words[0] = p.f_frame | (uint64_t)(sign_of(p.f) ^ 0x155) << 48;
	run(f, FRAMED); /* gone before it was read: not the one that is there */
	assert_int_equal(f->frames[0],
			 uw_frame_of_script(uw_script_place(p.f, UW_SCRIPT_NO_POSITION,
							    (uint32_t)(words[0] >> 48))));
	f->snapshot.n_python = 0;
	uw_module_unref(p.module);
}

/* The function at @from declares @n others, which closures are copies of. */
static void declare(uint64_t from, const uint64_t *functions, uint32_t n)
{
	uint64_t list = sc_heap(&sc, 8ul * n);

	sc_set(&sc, from + 180, n, 4);
	sc_set(&sc, from + 192, list, 8);
	for (uint32_t i = 0; i < n; i++)
		sc_set(&sc, list + 8ul * i, functions[i], 8);
}

/* A closure of @function, in the memory of its object. */
static uint64_t make_closure(uint64_t function, uint64_t class)
{
	uint64_t at = sc_heap(&sc, 240);

	memcpy(sc.bytes + (at - SC_BASE), sc.bytes + (function - SC_BASE), 240);
	sc_set(&sc, at + 4, 1 << 22, 4);
	sc_set(&sc, at + 16, class, 8);
	return at;
}

static void expect_closure(struct fixture *f, uint64_t function, uint64_t position, uint32_t sign)
{
	run(f, FRAMED);
	assert_int_equal(f->frames[0],
			 uw_frame_of_script(uw_script_place(function, position, sign)));
}

/* Closures have the name of the function that they are copies of, wherever they were: freed before they were read; in a class;
 * declared by a closure. */
static void test_php_closures(void **state)
{
	struct fixture *f = *state;
	uint64_t words[3 * UW_PYTHON_WORDS], inner, outer, class, closure, file, code;
	struct program p;
	uint32_t sign;

	put_php(f, &p);
	file = sc_string(&sc, "a.php");
	inner = sc_php_function(&sc, 0, "{closure}", file, 31);
	outer = sc_php_function(&sc, 0, "{closure}", file, 30);
	class = sc_heap(&sc, 64);
	sc_set(&sc, class + 8, sc_string(&sc, "Shop\\Cart"), 8);
	sc_set(&sc, p.g + 16, class, 8);
	declare(p.g, (uint64_t[]){p.other, outer}, 2);
	declare(outer, &inner, 1);
	closure = make_closure(inner, class);
	sign = sign_of(closure);
	assert_int_not_equal(sign, sign_of(inner));
	code = sc_code(&sc, inner);
	memcpy(words,
	       (uint64_t[]){p.f_frame | (uint64_t)sign << 48, closure, code + 64,
			    p.g_frame | (uint64_t)sign_of(p.g) << 48, p.g | 1ull << 48,
			    sc_code(&sc, p.g) + 96, 0, 0, 0},
	       sizeof(words));
	set_registers(f, p.f_frame, code + 96);
	f->snapshot.python = words;
	f->snapshot.n_python = 2;
	expect_closure(f, inner, 3, sign);
	assert_int_equal(f->frames[1], named(p.g, 3));
	/* Another call has made it elsewhere, and its memory is used for something else. */
	memset(sc.bytes + (closure - SC_BASE), 0xee, 240);
	words[1] = closure = make_closure(inner, class);
	memset(sc.bytes + (closure - SC_BASE), 0xee, 240);
	expect_closure(f, inner, 3, sign);
	/* One in another class, of the same code: no function that declares it is known. */
	words[0] = p.f_frame | (uint64_t)(sign ^ 0x155) << 48;
	expect_closure(f, closure, UW_SCRIPT_NO_POSITION, sign ^ 0x155);
	/* Frames that are read late: the instruction shows the function. */
	f->snapshot.n_python = 0;
	expect_closure(f, inner, 3, sign);
	uw_module_unref(p.module);
}

/* A list of declared functions that leads to itself, and one that is not there. */
static void test_php_wrong_closures(void **state)
{
	struct fixture *f = *state;
	struct program p;

	put_php(f, &p);
	declare(p.f, (uint64_t[]){p.f, p.g, p.f}, 3);
	declare(p.g, (uint64_t[]){p.f, p.g}, 2);
	sc_set(&sc, p.main + 180, UINT32_MAX, 4);
	sc_set(&sc, p.main + 192, SC_BASE + SC_BYTES - 8, 8);
	run(f, FRAMED);
	EXPECT(f, named(p.f, 3), GUESSED(p.g, 2), CALLED(SMALL + 1), IN_C(p.map), named(p.main, 5),
	       CALLED(ROOTED + 1));
	uw_module_unref(p.module);
}

/* f is a generator, for which g waits, for which other waits (base/php-generator.h). */
static void test_php_generators(void **state)
{
	struct fixture *f = *state;
	uint64_t objects[3], frames[2], fake, words[5 * UW_PYTHON_WORDS];
	struct program p;

	put_php(f, &p);
	for (int i = 0; i < 3; i++)
		objects[i] = sc_heap(&sc, 272);
	frames[0] = sc_php_frame(&sc, p.other, sc_code(&sc, p.other) + 64, 0, true);
	frames[1] = sc_php_frame(&sc, p.g, sc_code(&sc, p.g) + 128, 0, true);
	for (int i = 0; i < 3; i++) {
		sc_set(&sc, objects[i] + 56, i < 2 ? frames[i] : p.f_frame, 8);
		sc_set(&sc, objects[i] + 152, i < 2 ? objects[i + 1] : 0, 8);
	}
	fake = objects[0] + 184;
	sc_set(&sc, fake + 32, objects[0], 8);
	sc_set(&sc, fake + 48, p.main_frame, 8);
	sc_set(&sc, p.f_frame + 40, 1 << 17, 4);
	sc_set(&sc, p.f_frame + 48, fake, 8);
	run(f, FRAMED);
	EXPECT(f, named(p.f, 3), GUESSED(p.g, 3), GUESSED(p.other, 1), CALLED(SMALL + 1),
	       named(p.main, 5), CALLED(ROOTED + 1));
	assert_false(f->res.lacks_functions);
	/* Copied at the sample; the objects are others by now. */
	memcpy(words,
	       (uint64_t[]){p.f_frame, p.f | 1ull << 48, 0, fake, 0, 0, frames[0],
			    p.other | 3ull << 48, sc_code(&sc, p.other) + 64, frames[1],
			    p.g | 3ull << 48, sc_code(&sc, p.g) + 128, p.main_frame,
			    p.main | 1ull << 48, 0},
	       sizeof(words));
	f->snapshot.python = words;
	f->snapshot.n_python = 5;
	sc_set(&sc, objects[2] + 56, frames[0], 8);
	run(f, FRAMED);
	EXPECT(f, named(p.f, 3), named(p.g, 3), named(p.other, 1), CALLED(SMALL + 1),
	       named(p.main, 5), CALLED(ROOTED + 1));
	/* Read late, they wait for another one; without an end; elsewhere. */
	f->snapshot.n_python = 0;
	for (int i = 0; i < 3; i++) {
		sc_set(&sc, objects[2] + 152, i == 1 ? objects[0] : 0, 8);
		sc_set(&sc, fake + 32, i == 2 ? objects[1] : objects[0], 8);
		run(f, FRAMED);
		assert_int_equal(f->frames[0], named(p.f, 3));
		assert_int_equal(f->frames[1], i < 2 ? FRAMED : CALLED(SMALL + 1));
		assert_int_equal(f->res.lacks_functions, i < 2);
	}
	uw_module_unref(p.module);
}

/* A name belongs to the function that was seen, or there is none. */
static void test_signs(void **state)
{
	uint64_t f, place, places[] = {0, 7, 254, 255, 4094, UW_SCRIPT_NO_POSITION};
	const struct php_declared none = {.n = 0};
	struct script_text text;
	struct uw_script script;
	struct vm_memory m;

	(void)state;
	sc_php_init(&sc);
	assert_int_equal(sc_find(&sc, false, SC_BASE, &script), 0);
	f = sc_php_function(&sc, 0, "phase", sc_string(&sc, "a.php"), 1);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		place = uw_script_place(f, places[i], sign_of(f));
		assert_int_equal(uw_script_function(place), f);
		assert_int_equal(uw_script_position(place), places[i]);
		assert_true(uw_script_has_sign(place, sign_of(f)));
		assert_false(uw_script_has_sign(place, sign_of(f) + 1));
		assert_int_equal(uw_frame_script_address(uw_frame_of_script(place)), place);
		assert_false(uw_frame_of_script(place) & UW_FRAME_GUESSED);
	}
	/* Names that follow each other at one address need more than a few bits. */
	for (uint32_t sign = 1; sign < 8192; sign++)
		assert_true(uw_script_place(f, 7, sign) != uw_script_place(f, 7, sign + 1) &&
			    uw_script_has_sign(uw_script_place(f, 7, 8192 - sign), sign) ==
				    (sign == 4096));
	assert_true(uw_script_has_sign(uw_script_frame(f, 7), 5)); /* without one */
	assert_int_equal(vm_memory_begin(&m, &sc.memory, 8), 0);
	assert_true(php_text(&m, &script, &none, uw_script_place(f, 7, sign_of(f)), &text));
	assert_string_equal(text.function, "phase");
	place = uw_script_place(f, 7, sign_of(f));
	rename_function(f, 'x');
	vm_memory_again(&m, &sc.memory, VM_READ_MAX);
	assert_false(php_text(&m, &script, &none, place, &text));
	vm_memory_end(&m);
}

static void test_places(void **state)
{
	const uint64_t tops[] = {0, 0x55, 0x56, 0x2a, 0x7c, 0x7d, 0x7e, 0x7f};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(tops); i++) {
		uint64_t f = tops[i] << 40 | 0xfffffffff8;

		for (uint32_t position = 0; position <= UW_SCRIPT_NO_POSITION; position += 273) {
			uint64_t place = uw_script_place(f, position, 0xffff);
			bool is_long =
				position >= UW_SCRIPT_SHORT && position < UW_SCRIPT_NO_POSITION;

			assert_true(uw_script_is_signed(place) && place >> 62 == 0);
			assert_int_equal(uw_script_function(place), f);
			assert_int_equal(uw_script_position(place), position);
			assert_int_equal(uw_script_without_position(place),
					 uw_script_without_position(
						 uw_script_place(f, is_long ? 4000 : 1, 0xffff)));
		}
	}
	/* Elsewhere there is no room for the sign. */
	assert_int_equal(uw_script_place(0x123456789ab8, 9, 77),
			 uw_script_frame(0x123456789ab8, 9));
	assert_int_equal(uw_script_function(uw_script_frame(0x123456789ab8, 9)), 0x123456789ab8);
}

/* Where a run begins, the registers are those of the run outwards. */
static void test_php_begin(void **state)
{
	struct fixture *f = *state;
	struct program p;

	put_php(f, &p);
	set_registers(f, p.main_frame, sc_code(&sc, p.main) + 160);
	run(f, SMALL);
	EXPECT(f, SMALL, CALLED(FRAMED + 1), CALLED(SMALL + 1), named(p.main, 5),
	       CALLED(ROOTED + 1));
	assert_false(f->res.lacks_functions);
	/* No registers: neither run has functions. */
	set_registers(f, 3, 5);
	f->stack[INNER + SC_SAVED_FRAME / 8] = UINT64_MAX;
	run(f, SMALL);
	EXPECT(f, SMALL, CALLED(FRAMED + 1), CALLED(SMALL + 1), CALLED(FRAMED + 1),
	       CALLED(ROOTED + 1));
	assert_true(f->res.lacks_functions);
	uw_module_unref(p.module);
}

/* The function of the instruction is known by what its caller calls. */
static void test_php_callee(void **state)
{
	struct fixture *f = *state;
	struct program p;
	uint64_t cache;

	put_php(f, &p);
	cache = sc_heap(&sc, 64);
	sc_set(&sc, cache + 24, p.f, 8);
	sc_set(&sc, p.g_frame + 64, cache, 8);
	sc_set(&sc, p.g + 72, 64, 4);
	sc_set(&sc, p.f_frame + 24, p.other, 8);
	run(f, SMALL);
	assert_int_equal(f->frames[1], named(p.f, 3));
	uw_module_unref(p.module);
}

static void test_ruby(void **state)
{
	struct fixture *f = *state;
	uint64_t frames, file;
	struct program p = {0};

	sc_ruby_init(&sc);
	file = sc_string(&sc, "a.rb");
	p.main = sc_ruby_function(&sc, "<main>", file, 1, SC_CODE);
	p.f = sc_ruby_function(&sc, "f", file, 5, SC_CODE);
	p.other = sc_ruby_function(&sc, "other", file, 9, SC_CODE);
	p.map = sc_ruby_method(&sc, 1, SMALL);
	frames = sc_ruby_frames(&sc);
	sc_ruby_frame(&sc, frames, 0, 0, 0x55550001);
	sc_set(&sc, frames + 1024 - 16, p.map, 8);
	sc_ruby_frame(&sc, frames + 64, p.f, sc_code(&sc, p.f), 0x11110001);
	sc_ruby_frame(&sc, frames + 128, p.main, sc_code(&sc, p.main) + 32, 0x44440021);
	set_registers(f, frames + 64, sc_code(&sc, p.f) + 24);
	put_stack(f, &p);
	f->stack[INNER_RA] = ROOTED + 1;
	run(f, SMALL);
	EXPECT(f, SMALL, IN_C(p.map), named(p.f, 3), GUESSED(p.main, 4), CALLED(ROOTED + 1));
	/* The frame of f is another one's by now; main calls f by call data ─► cache ─► method ─► definition. */
	sc_ruby_frame(&sc, frames + 64, p.other, sc_code(&sc, p.other), 0x11110001);
	run(f, SMALL);
	EXPECT(f, SMALL, IN_C(p.map), named(p.f, 3), CALLED(FRAMED + 1), CALLED(ROOTED + 1));
	/* Frames that have no end, or that cannot be read. */
	sc_ruby_frame(&sc, frames + 64, p.f, sc_code(&sc, p.f), 0x11110001);
	sc_ruby_frame(&sc, frames + 128, p.main, 0, 0x11110001);
	run(f, SMALL);
	assert_int_equal(f->frames[2], named(p.f, 3));
	assert_int_equal(f->res.outcome, UW_WHOLE);
	sc_set(&sc, frames + 64 + 32, UINT64_MAX - 7, 8);
	sc.reads = 0;
	run(f, SMALL);
	assert_int_equal(f->res.outcome, UW_WHOLE);
	assert_true(sc.reads <= 64);
	uw_module_unref(p.module);
}

/* A function in C that has jumped to another one, inside of which the sample is. */
static void test_ruby_jumped(void **state)
{
	struct fixture *f = *state;
	uint64_t frames, each, words[4 * UW_PYTHON_WORDS];
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + 20 * NSEC_PER_SEC;
	struct program p = {0};

	sc_ruby_init(&sc);
	p.f = sc_ruby_function(&sc, "f", sc_string(&sc, "a.rb"), 5, SC_CODE);
	p.map = sc_ruby_method(&sc, 1, SMALL);
	each = sc_ruby_method(&sc, 1, SAVES);
	frames = sc_ruby_frames(&sc);
	sc_ruby_frame(&sc, frames, 0, 0, 0x55550001);
	sc_set(&sc, frames + 1024 - 16, p.map, 8);
	sc_ruby_frame(&sc, frames + 64, 0, 0, 0x55550001);
	sc_set(&sc, frames + 64 + 1024 - 16, each, 8);
	sc_ruby_frame(&sc, frames + 128, p.f, sc_code(&sc, p.f) + 24, 0x11110021);
	set_registers(f, frames + 128, sc_code(&sc, p.f) + 24);
	put_stack(f, &p);
	f->stack[INNER_RA] = ROOTED + 1;
	run(f, SMALL);
	EXPECT(f, SMALL, IN_C(p.map), IN_C(each) | UW_FRAME_GUESSED, named(p.f, 3),
	       CALLED(ROOTED + 1));
	/* Another call is in hand when the frames are read. */
	sc_ruby_frame(&sc, frames + 128, p.f, sc_code(&sc, p.f) + 32, 0x11110021);
	run(f, SMALL);
	EXPECT(f, SMALL, IN_C(p.map), named(p.f, 3), CALLED(ROOTED + 1));
	assert_true(f->res.lacks_functions);
	f->snapshot.time = UINT64_MAX;
	do {
		assert_true(clock_ns(CLOCK_MONOTONIC) < until);
		sc_ruby_frame(&sc, frames + 128, p.f, sc_code(&sc, p.f) + 24, 0x11110021);
		interpreter_rests(f->engine);
		run(f, SMALL);
		sc_ruby_frame(&sc, frames + 128, p.f, sc_code(&sc, p.f) + 32, 0x11110021);
		interpreter_rests(f->engine);
		run(f, SMALL);
	} while (f->res.lacks_functions);
	EXPECT(f, SMALL, IN_C(p.map), IN_C(each) | UW_FRAME_GUESSED, named(p.f, 3),
	       CALLED(ROOTED + 1));
	/* The sample's own frames. */
	memcpy(words,
	       (uint64_t[]){frames, p.map, 0, frames + 64, each, 0, frames + 128, p.f | 1ull << 48,
			    sc_code(&sc, p.f) + 24, 0, 0, 0},
	       sizeof(words));
	f->snapshot.python = words;
	f->snapshot.n_python = 3;
	run(f, SMALL);
	EXPECT(f, SMALL, IN_C(p.map), IN_C(each), named(p.f, 3), CALLED(ROOTED + 1));
	f->snapshot.n_python = 0;
	uw_module_unref(p.module);
}

/* enum iseq_type, the first word of a body: 1 is a method's. */
static void mark_method(uint64_t iseq)
{
	uint64_t body;

	memcpy(&body, sc.bytes + (iseq + 16 - SC_BASE), 8);
	sc_set(&sc, body, 1, 4);
}

/* The environment of a method's frame has its method entry in front of the flags, or an object with it. */
static void test_ruby_method_frames(void **state)
{
	struct fixture *f = *state;
	uint64_t frames, iseq, file, own, environment;
	struct program p = {0};

	sc_ruby_init(&sc);
	file = sc_string(&sc, "a.rb");
	p.main = sc_ruby_function(&sc, "<main>", file, 1, SC_CODE);
	iseq = sc_ruby_function(&sc, "f", file, 5, SC_CODE);
	p.f = sc_ruby_method(&sc, 0, iseq);
	frames = sc_ruby_frames(&sc);
	environment = frames + 64 + 1024;
	sc_ruby_frame(&sc, frames + 64, iseq, sc_code(&sc, iseq), 0x11110001);
	sc_ruby_frame(&sc, frames + 128, p.main, sc_code(&sc, p.main) + 32, 0x44440021);
	sc_set(&sc, environment - 16, p.f, 8);
	set_registers(f, frames + 64, sc_code(&sc, iseq) + 24);
	put_stack(f, &p);
	f->stack[INNER_RA] = ROOTED + 1;
	run(f, SMALL);
	EXPECT(f, SMALL, named(p.f, 3), GUESSED(p.main, 4), CALLED(ROOTED + 1));
	own = sc_heap(&sc, 40); /* struct vm_svar */
	sc_set(&sc, own, 0x1a | 2 << 12, 8);
	sc_set(&sc, own + 8, p.f, 8);
	sc_set(&sc, environment - 16, own, 8);
	run(f, SMALL);
	EXPECT(f, SMALL, named(p.f, 3), GUESSED(p.main, 4), CALLED(ROOTED + 1));
	/* The environment is another frame's by now: the method entry is known by its instructions. */
	mark_method(iseq);
	sc_set(&sc, environment, 0x22220001, 8);
	run(f, SMALL);
	EXPECT(f, SMALL, named(p.f, 3), GUESSED(p.main, 4), CALLED(ROOTED + 1));
	/* The caller's environment is another method's, which was read at another moment. */
	sc_set(&sc, frames + 128 + 1024, 0x11110021, 8);
	sc_set(&sc, frames + 128 + 1024 - 16, p.f, 8);
	run(f, SMALL);
	EXPECT(f, SMALL, named(p.f, 3), GUESSED(p.main, 4), CALLED(ROOTED + 1));
	sc_set(&sc, frames + 128 + 1024, 0x44440021, 8);
	/* No method entry is there. */
	sc_set(&sc, environment, 0x11110001, 8);
	sc_set(&sc, environment - 16, UINT64_MAX - 7, 8);
	run(f, SMALL);
	EXPECT(f, SMALL, named(p.f, 3), GUESSED(p.main, 4), CALLED(ROOTED + 1));
	uw_engine_forget(f->engine, NULL);
	uw_module_unref(p.module);
}

/* The code of a function that was freed is another one's, while the words of the first one are as they were. */
static void check_code_again(struct fixture *f, bool swapped)
{
	uint64_t frames, file, functions[2], body;
	struct program p = {0};

	sc_ruby_init(&sc);
	file = sc_string(&sc, "a.rb");
	p.main = sc_ruby_function(&sc, "<main>", file, 1, SC_CODE);
	p.other = sc_ruby_function(&sc, "other", file, 9, SC_CODE);
	functions[swapped] = sc_ruby_function(&sc, "f", file, 5, SC_CODE);
	functions[!swapped] = sc_ruby_function(&sc, "g", file, 7, SC_CODE);
	memcpy(&body, sc.bytes + (functions[1] + 16 - SC_BASE), 8);
	sc_set(&sc, body + 8, sc_code(&sc, functions[0]), 8);
	frames = sc_ruby_frames(&sc);
	sc_ruby_frame(&sc, frames + 128, p.main, sc_code(&sc, p.main) + 32, 0x44440021);
	set_registers(f, frames + 64, sc_code(&sc, functions[0]) + 24);
	put_stack(f, &p);
	f->stack[INNER_RA] = ROOTED + 1;
	for (int i = 0; i < 2; i++) {
		sc_ruby_frame(&sc, frames + 64, functions[i], sc_code(&sc, functions[i]) + 24,
			      0x22220001);
		run(f, FRAMED);
		assert_int_equal(f->frames[0], named(functions[i], 3));
	}
	/* The frame is that of another call by now. */
	sc_ruby_frame(&sc, frames + 64, p.other, sc_code(&sc, p.other) + 24, 0x22220001);
	run(f, FRAMED);
	assert_int_equal(f->frames[0], named(functions[1], 3));
	uw_module_unref(p.module);
}

static void test_ruby_code_again(void **state)
{
	check_code_again(*state, false);
	check_code_again(*state, true);
}

static void set_torn(bool later)
{
	uint64_t caller = later ? torn.after : torn.before;

	sc_ruby_frame(&sc, torn.frames + 128, caller, sc_code(&sc, caller) + 32, 0x22220001);
	sc_set(&sc, torn.current, torn.frames + (later ? 128 : 64), 8);
}

/* The process runs on while its memory is read: its innermost frame is that of a call that has ended when the frames are read. */
static bool read_torn(struct uw_memory *memory, const struct uw_range *ranges, size_t n, void *to)
{
	uint8_t *at = to;

	set_torn(false);
	for (size_t i = 0; i < n; i++) {
		ssize_t got;

		if (ranges[i].address == torn.frames && ranges[i].len == VM_PAGE)
			set_torn(true);
		got = sc_read(memory, ranges[i].address, at, ranges[i].len);
		got = got < 0 ? 0 : got;
		memset(at + got, 0, ranges[i].len - (size_t)got);
		at += ranges[i].len;
	}
	return true;
}

/* Frames of two moments are none of the sample. */
static void test_ruby_torn(void **state)
{
	struct fixture *f = *state;
	uint64_t file, thread, context;
	struct program p = {0};

	sc_ruby_init(&sc);
	file = sc_string(&sc, "a.rb");
	torn.vm = sc_heap(&sc, 128);
	thread = sc_heap(&sc, 128);
	context = sc_heap(&sc, 128);
	sc_set(&sc, torn.vm, torn.vm + 64, 8);
	sc_set(&sc, torn.vm + 64 + TORN_THREAD, thread, 8);
	sc_set(&sc, thread + TORN_CONTEXT, context, 8);
	torn.current = context + TORN_INNERMOST;
	p.main = sc_ruby_function(&sc, "<main>", file, 1, SC_CODE);
	p.f = sc_ruby_function(&sc, "f", file, 5, SC_CODE);
	torn.before = p.g = sc_ruby_function(&sc, "g", file, 7, SC_CODE);
	torn.after = p.other = sc_ruby_function(&sc, "other", file, 9, SC_CODE);
	torn.frames = (sc_heap(&sc, 3 * VM_PAGE) + VM_PAGE - 1) & ~(uint64_t)(VM_PAGE - 1);
	sc_ruby_frame(&sc, torn.frames + 64, p.f, sc_code(&sc, p.f) + 24, 0x22220001);
	sc_ruby_frame(&sc, torn.frames + 192, p.main, sc_code(&sc, p.main) + 32, 0x44440021);
	set_torn(false);
	set_registers(f, torn.frames + 64, sc_code(&sc, p.f) + 24);
	put_stack(f, &p);
	f->stack[INNER_RA] = ROOTED + 1;
	run(f, FRAMED);
	EXPECT(f, named(p.f, 3), GUESSED(p.g, 4), GUESSED(p.main, 4), CALLED(ROOTED + 1));
	sc.memory.read_ranges = read_torn;
	for (int i = 0; i < 3; i++) { /* the pages are known from the first one on */
		interpreter_rests(f->engine);
		run(f, FRAMED);
		EXPECT(f, named(p.f, 3), FRAMED, CALLED(ROOTED + 1));
		assert_true(f->res.lacks_functions);
	}
	uw_module_unref(p.module);
	torn.vm = 0;
}

/* Frames that lead in a circle, to nothing, or out of the process: nothing is read without end. */
static void test_wrong_frames(void **state)
{
	struct fixture *f = *state;
	struct program p;

	put_php(f, &p);
	sc_set(&sc, p.g_frame + 48, p.f_frame, 8);
	sc_set(&sc, p.g_frame + 40, 0, 4);
	sc_set(&sc, p.f_frame + 40, 0, 4);
	run(f, SMALL);
	assert_int_equal(f->res.outcome, UW_WHOLE);
	assert_int_equal(f->res.n_frames, FRAMES);
	sc_set(&sc, p.g_frame + 48, UINT64_MAX - 7, 8);
	sc.reads = 0;
	run(f, SMALL);
	EXPECT(f, SMALL, named(p.f, 3), CALLED(FRAMED + 1), CALLED(SMALL + 1), named(p.main, 5),
	       CALLED(ROOTED + 1));
	assert_true(sc.reads <= 64);
	sc_set(&sc, p.g + 80, UINT32_MAX, 4); /* instructions without end */
	sc_set(&sc, p.g_frame, 0x1000, 8);
	run(f, SMALL);
	assert_int_equal(f->frames[1], named(p.f, 3));
	uw_module_unref(p.module);
}

/* The layout is waited for where a frame is in the interpreter's file. */
static void test_pending(void **state)
{
	struct fixture *f = *state;
	struct uw_module *module;
	struct program p;

	put_php(f, &p);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, UW_PHP_PATH, NULL, &module), 0);
	fixture_space(f, 6, &sc.memory);
	uw_space_set_script(f->space, module);
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 5); /* text_of() is not php */
	uw_module_set_unreadable(module);
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 5);
	uw_module_unref(module);
	uw_module_unref(p.module);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_php),
		TEST(test_php_late),
		TEST(test_php_seldom),
		TEST(test_php_jumped),
		TEST(test_php_leaf_in_c),
		TEST(test_php_exact),
		TEST(test_php_reused),
		TEST(test_php_closures),
		TEST(test_php_wrong_closures),
		TEST(test_php_generators),
		cmocka_unit_test(test_signs),
		cmocka_unit_test(test_places),
		TEST(test_php_begin),
		TEST(test_php_callee),
		TEST(test_ruby),
		TEST(test_ruby_jumped),
		TEST(test_ruby_code_again),
		TEST(test_ruby_torn),
		TEST(test_ruby_method_frames),
		TEST(test_wrong_frames),
		TEST(test_pending),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
