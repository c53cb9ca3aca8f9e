/* test-js.c - V8's functions by memory made by hand: the constants, names, lines, stacks, and memory that is wrong.
 *
 * The interpreter's code is `SILENT` of native-fixture.h, which has no unwind information. */
#include <errno.h>

#include "tests/unit/unwinder/interpreter-module.h"
#include "tests/unit/unwinder/native-fixture.h"
#include "tests/unit/unwinder/v8-fixture.h"

#include "unwinder/regs.h"

static struct sc_process sc;

/* ---- the constants ---- */

static int find(uint64_t image, struct uw_script *script)
{
	struct vm_memory m;
	int r;

	assert_int_equal(vm_memory_begin(&m, &sc.memory, 8), 0);
	r = v8_new(&m, image, script);
	vm_memory_end(&m);
	return r;
}

static void test_constants(void **state)
{
	struct uw_script script;

	(void)state;
	v8_process_init(&sc, NULL);
	assert_int_equal(find(SC_BASE, &script), 0);
	assert_int_equal(script.v8.version, 0xb03);
	assert_int_equal(script.v8.fp_function, -16);
	assert_int_equal(script.v8.shared, 24);
	assert_int_equal(script.v8.type_shared, 262);
	assert_int_equal(script.v8.code, 48);
	/* Fields that only proofs and files need may be missing. */
	v8_process_init(&sc, "v8dbg_class_Code__bytecode_or_interpreter_data__HeapObject");
	assert_int_equal(find(SC_BASE, &script), 0);
	assert_int_equal(script.v8.baseline, 0);
}

static void test_unsupported(void **state)
{
	static const char *const needed[] = {
		"v8dbg_SmiShiftSize",
		"v8dbg_off_fp_function",
		"v8dbg_class_JSFunction__shared__SharedFunctionInfo",
		"v8dbg_class_SharedFunctionInfo__script_or_debug_info__HeapObject",
		"v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE",
	};
	struct uw_script script;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		v8_process_init(&sc, needed[i]);
		assert_int_equal(find(SC_BASE, &script), -ENOTSUP);
	}
	v8_process_init(&sc, NULL);
	sc_set(&sc, v8_constant_at(&sc, "v8dbg_SmiShiftSize"), 0, 4); /* pointers are compressed */
	assert_int_equal(find(SC_BASE, &script), -ENOTSUP);
	v8_process_init(&sc, NULL);
	sc_set(&sc, v8_constant_at(&sc, "v8dbg_off_fp_function"), 16, 4);
	assert_int_equal(find(SC_BASE, &script), -ENOTSUP);
	v8_process_init(&sc, NULL);
	sc_set(&sc, v8_constant_at(&sc, "v8dbg_class_Script__name__Object"), 1 << 20, 4);
	assert_int_equal(find(SC_BASE, &script), -ENOTSUP);
	/* Another program of that name. */
	sc_php_init(&sc);
	assert_int_equal(find(SC_BASE, &script), -ENOEXEC);
	assert_int_equal(find(SC_BASE + 2 * SC_BYTES, &script), -ENOEXEC);
}

static void test_paths(void **state)
{
	(void)state;
	assert_int_equal(uw_path_language("/usr/bin/node"), UW_LANGUAGE_JS);
	assert_int_equal(uw_path_language("/usr/bin/node (deleted)"), UW_LANGUAGE_JS);
	assert_int_equal(uw_path_language("/usr/bin/nodejs"), UW_LANGUAGE_JS);
	assert_int_equal(uw_path_language("/usr/lib/x86_64-linux-gnu/libnode.so.108"),
			 UW_LANGUAGE_JS);
	assert_int_equal(uw_path_language("/usr/bin/node_exporter"), UW_LANGUAGE_NONE);
	assert_int_equal(uw_path_language("/usr/bin/nodejs-doc"), UW_LANGUAGE_NONE);
}

/* ---- names ---- */

static bool function_of(const struct uw_v8 *v8, uint64_t function, struct v8_function *ret)
{
	struct vm_memory m;
	bool found;

	assert_int_equal(vm_memory_begin(&m, &sc.memory, 8), 0);
	found = v8_function(&m, v8, function, ret);
	vm_memory_end(&m);
	return found;
}

static bool text_of_frame(const struct uw_v8 *v8, struct v8_lines **lines, uint64_t frame,
			  struct script_text *text)
{
	struct vm_memory m;
	bool found;

	assert_int_equal(vm_memory_begin(&m, &sc.memory, 8), 0);
	found = v8_text(&m, v8, lines, frame, text);
	vm_memory_end(&m);
	return found;
}

static void expect_text(const struct uw_v8 *v8, uint64_t shared, const char *name, const char *file,
			uint32_t line)
{
	uint64_t function = v8_js_function(&sc, shared, 0, 0);
	struct v8_lines *lines = NULL;
	struct script_text text;
	struct v8_function f;

	assert_true(function_of(v8, function, &f));
	assert_int_equal(uw_script_function(f.frame), shared - 1);
	for (int i = 0; i < 2; i++) { /* the second time lines are known */
		assert_true(text_of_frame(v8, &lines, f.frame, &text));
		assert_string_equal(text.function, name);
		assert_string_equal(text.file, file);
		assert_int_equal(text.line, line);
	}
	/* Memory that another function has by now. */
	assert_false(text_of_frame(v8, &lines, f.frame ^ 1, &text));
	assert_null(v8_lines_free(lines));
}

static uint64_t script_of(uint64_t name, uint64_t source)
{
	return V8_OBJECT(&sc, V8_SCRIPT, source, name, 0, 0, 0, 0);
}

static void test_names(void **state)
{
	uint64_t script, undefined, empty, both, name;
	struct uw_script found;
	const struct uw_v8 *v8 = &found.v8;

	(void)state;
	v8_process_init(&sc, NULL);
	assert_int_equal(find(SC_BASE, &found), 0);
	undefined = V8_OBJECT(&sc, V8_ODDBALL, 0, 0);
	empty = v8_string(&sc, "");
	script = script_of(v8_string(&sc, "/x/a.js"), v8_string(&sc, "line 1\nline 2\nline 3\n"));
	expect_text(v8, v8_shared(&sc, script, v8_string(&sc, "f"), undefined, 0, 5), "f",
		    "/x/a.js", 1);
	expect_text(v8, v8_shared(&sc, script, v8_string(&sc, "f"), undefined, 14, 20), "f",
		    "/x/a.js", 3);
	/* V8 infers a name from what the function is assigned to; without one it has its place. */
	name = v8_string(&sc, "Module.load");
	expect_text(v8, v8_shared(&sc, script, empty, name, 7, 9), "Module.load", "/x/a.js", 2);
	expect_text(v8, v8_shared(&sc, script, empty, undefined, 7, 9), "(anonymous a.js:2)",
		    "/x/a.js", 2);
	/* Strings that are not in one piece. */
	both = V8_OBJECT(&sc, V8_CONS, 0, v8_string(&sc, "file:///y/"), v8_string(&sc, "b.mjs"));
	sc_set(&sc, both - 1 + 12, 15, 4);
	name = V8_OBJECT(&sc, V8_SLICED, 4ull << 32, v8_string(&sc, "a long name"), v8_smi(2));
	expect_text(v8,
		    v8_shared(&sc, script_of(V8_OBJECT(&sc, V8_THIN, 15ull << 32, both), undefined),
			      name, undefined, 3, 4),
		    "long", "/y/b.mjs", 0);
	/* UTF-16, and Latin-1: "é" is one byte there. */
	name = V8_OBJECT(&sc, V8_WIDE, 3ull << 32, 0x4e2d00e90061);
	expect_text(v8, v8_shared(&sc, script, name, undefined, 0, 1), "a\u00e9\u4e2d", "/x/a.js",
		    1);
	expect_text(v8, v8_shared(&sc, script, v8_string(&sc, "\xe9\n"), undefined, 0, 1),
		    "\u00e9?", "/x/a.js", 1);
}

static void test_wrong_names(void **state)
{
	uint64_t script, shared, function, name;
	struct v8_lines *lines = NULL;
	struct script_text text;
	struct uw_script found;
	struct v8_function f;

	(void)state;
	v8_process_init(&sc, NULL);
	assert_int_equal(find(SC_BASE, &found), 0);
	/* A string of pieces that holds itself ends. */
	name = V8_OBJECT(&sc, V8_CONS, 9ull << 32, 0, 0);
	sc_set(&sc, name - 1 + 16, name, 8);
	sc_set(&sc, name - 1 + 24, name, 8);
	script = script_of(name, name);
	shared = v8_shared(&sc, script, name, name, 0, 1);
	function = v8_js_function(&sc, shared, 0, 0);
	assert_true(function_of(&found.v8, function, &f));
	assert_true(text_of_frame(&found.v8, &lines, f.frame, &text));
	assert_string_equal(text.function, "(anonymous)");
	/* A source that is shorter than it states. */
	name = v8_string(&sc, "g");
	script = script_of(name, name);
	sc_set(&sc, name - 1 + 12, 1 << 29, 4);
	shared = v8_shared(&sc, script, v8_string(&sc, "g"), name, 1 << 28, 1 << 29);
	assert_true(function_of(&found.v8, v8_js_function(&sc, shared, 0, 0), &f));
	assert_true(text_of_frame(&found.v8, &lines, f.frame, &text));
	assert_string_equal(text.function, "g");
	assert_int_equal(text.line, 0);
	/* Objects of other types. */
	assert_false(function_of(&found.v8, name, &f));
	assert_false(function_of(&found.v8, function - 1, &f));
	assert_false(text_of_frame(&found.v8, &lines, uw_script_frame(name - 1, 0), &text));
	sc_set(&sc, v8_word(&sc, shared, 16) - 1 + 24, v8_smi(1 << 30), 8); /* locals */
	assert_false(function_of(&found.v8, v8_js_function(&sc, shared, 0, 0), &f));
	assert_null(v8_lines_free(lines));
}

/* ---- stacks ---- */

static struct uw_module *js_module(void)
{
	struct uw_script script;
	struct uw_module *module;

	assert_int_equal(find(SC_BASE, &script), 0);
	module = interpreter_module(UW_JS_PATH, NULL, &script);
	assert_non_null(module);
	return module;
}

/* The stack: compiled < g, interpreted < V8's own < rooted.  Words of the stack: where the frame pointers point. */
enum { COMPILED = 8, INTERPRETED = 20, OWN = 30, CODE_LEN = 0x80 };

struct program {
	struct uw_module *js, *jit;
	uint64_t f, g, h; /* JSFunction */
	uint64_t f_shared, g_shared;
};

static uint64_t word_address(size_t word)
{
	return SP + 8 * word;
}

static uint64_t named(uint64_t function)
{
	struct uw_script script;
	struct v8_function f;

	assert_int_equal(find(SC_BASE, &script), 0);
	assert_true(function_of(&script.v8, function, &f));
	return f.frame | UW_FRAME_SCRIPT;
}

static void put_frame(struct fixture *f, size_t at, size_t caller, uint64_t ra, uint64_t function)
{
	f->stack[at] = caller ? word_address(caller) : 0;
	f->stack[at + 1] = ra;
	f->stack[at - 1] = function ? function : v8_smi(0) | 22 << 1;
	f->stack[at - 2] = function;
}

static void put_stack(struct fixture *f, struct program *p)
{
	uint64_t script, undefined;

	v8_process_init(&sc, NULL);
	undefined = V8_OBJECT(&sc, V8_ODDBALL, 0, 0);
	script = script_of(v8_string(&sc, "a.js"), undefined);
	p->f_shared = v8_shared(&sc, script, v8_string(&sc, "f"), undefined, 1, 2);
	p->g_shared = v8_shared(&sc, script, v8_string(&sc, "g"), undefined, 3, 4);
	p->f = v8_js_function(&sc, p->f_shared, JIT, CODE_LEN);
	p->g = v8_js_function(&sc, p->g_shared, SILENT, CODE_LEN);
	p->h = v8_js_function(&sc, p->g_shared, 0, 0);
	put_frame(f, COMPILED, INTERPRETED, SILENT + 9, p->f);
	put_frame(f, INTERPRETED, OWN, SILENT + 0x20, p->g);
	f->stack[INTERPRETED - 4] = v8_word(&sc, p->g_shared, 8);
	put_frame(f, OWN, 0, ROOTED + 1, 0);
	f->regs[UW_X86_BP] = word_address(COMPILED);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, "/tmp/perf-1.map", NULL, &p->jit), 0);
	uw_module_set_unreadable(p->jit);
	f->maps[1].module = p->jit;
	fixture_space(f, 5, &sc.memory);
	p->js = js_module();
	uw_space_set_script(f->space, p->js);
	f->snapshot.time = 1;
}

static void end_stack(struct fixture *f, struct program *p)
{
	f->maps[1].module = NULL;
	uw_module_unref(p->jit);
	uw_module_unref(p->js);
}

#define FOUND(pc) (CALLED(pc) | UW_FRAME_GUESSED)

static void test_stack(void **state)
{
	struct fixture *f = *state;
	struct program p;
	uint64_t other;

	put_stack(f, &p);
	run(f, JIT + 0x10);
	EXPECT(f, named(p.f), named(p.g), FOUND(SILENT + 0x20), FOUND(ROOTED + 1));
	/* A collection has put a string there: the address and the BytecodeArray have their functions. */
	other = v8_string(&sc, "other");
	f->stack[COMPILED - 2] = f->stack[INTERPRETED - 2] = other;
	run(f, JIT + 0x10);
	EXPECT(f, named(p.f), named(p.g), FOUND(SILENT + 0x20), FOUND(ROOTED + 1));
	/* Elsewhere in the same code: the same function; some time later the code may be another one's. */
	run(f, JIT + 0x18);
	EXPECT(f, named(p.f), named(p.g), FOUND(SILENT + 0x20), FOUND(ROOTED + 1));
	f->snapshot.time = NSEC_PER_SEC;
	run(f, JIT + 0x20);
	EXPECT(f, named(p.f) | UW_FRAME_GUESSED, named(p.g) | UW_FRAME_GUESSED,
	       FOUND(SILENT + 0x20), FOUND(ROOTED + 1));
	run(f, JIT + CODE_LEN);
	assert_int_equal(f->frames[0], JIT + CODE_LEN);
	f->snapshot.time = 1;
	f->engine->settings.native_frames = true;
	run(f, JIT + 0x10);
	EXPECT(f, JIT + 0x10, named(p.f), FOUND(SILENT + 9), named(p.g), FOUND(SILENT + 0x20),
	       FOUND(ROOTED + 1));
	end_stack(f, &p);
}

static void test_proof(void **state)
{
	struct fixture *f = *state;
	struct program p;

	put_stack(f, &p);
	/* A function that has other code by now, and an interpreted one with another BytecodeArray. */
	f->stack[COMPILED - 2] = p.h;
	f->stack[INTERPRETED - 4] = V8_OBJECT(&sc, V8_BYTECODE, v8_smi(64), 0);
	run(f, JIT + 0x10);
	EXPECT(f, named(p.h) | UW_FRAME_GUESSED, named(p.g) | UW_FRAME_GUESSED,
	       FOUND(SILENT + 0x20), FOUND(ROOTED + 1));
	/* The same before this sample. */
	f->snapshot.time = 2;
	run(f, JIT + 0x10);
	EXPECT(f, named(p.h), named(p.g), FOUND(SILENT + 0x20), FOUND(ROOTED + 1));
	/* Later it is read again. */
	f->snapshot.time = 10 * NSEC_PER_SEC;
	f->stack[COMPILED - 2] = p.f;
	run(f, JIT + 0x10);
	EXPECT(f, named(p.f), named(p.g), FOUND(SILENT + 0x20), FOUND(ROOTED + 1));
	end_stack(f, &p);
}

/* A function of V8's own has a frame, too (Array.prototype.map): its code is read of once. */
static void test_own(void **state)
{
	struct fixture *f = *state;
	struct program p;
	uint64_t reads;

	put_stack(f, &p);
	sc_set(&sc, p.g_shared - 1 + 8, v8_smi(7), 8); /* no bytecode: the number of a builtin */
	f->stack[INTERPRETED - 4] = v8_string(&sc, "local");
	run(f, JIT + 0x10);
	EXPECT(f, named(p.f), FOUND(SILENT + 9), FOUND(SILENT + 0x20), FOUND(ROOTED + 1));
	f->stack[INTERPRETED - 4] = v8_string(&sc, "another");
	reads = sc.reads;
	run(f, JIT + 0x10);
	assert_int_equal(sc.reads, reads);
	EXPECT(f, named(p.f), FOUND(SILENT + 9), FOUND(SILENT + 0x20), FOUND(ROOTED + 1));
	end_stack(f, &p);
}

/* A perf map or a jitdump has names of the sample's time. */
static void test_described(void **state)
{
	struct fixture *f = *state;
	struct program p;

	put_stack(f, &p);
	uw_module_drop_symbols(p.jit); /* its file was not looked for yet: one frame makes that */
	run(f, JIT + 0x10);
	EXPECT(f, JIT + 0x10, named(p.g), FOUND(SILENT + 0x20), FOUND(ROOTED + 1));
	run(f, JIT + 0x10);
	EXPECT(f, named(p.f), named(p.g), FOUND(SILENT + 0x20), FOUND(ROOTED + 1));
	end_stack(f, &p);
}

/* The heap; compiled code that begins with push %rbp; mov %rsp, %rbp; the interpreter's code, with calls. */
static ssize_t read_both(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	static const uint8_t compiled[CODE_LEN] = {[0x40] = 0x55, 0x48, 0x89, 0xe5, 0x90, 0xc3};
	static const uint8_t silent[CODE_LEN] = {[4] = 0xe8, [0x1b] = 0xe8};
	uint64_t start = address - JIT < CODE_LEN ? JIT : SILENT;

	(void)memory;
	if (address - start >= CODE_LEN)
		return sc_read(&sc.memory, address, to, len);
	len = min_u64(len, start + CODE_LEN - address);
	memcpy(to, (start == JIT ? compiled : silent) + (address - start), len);
	return (ssize_t)len;
}

/* Where a function begins, its JSFunction is in rdi, and it has no frame yet. */
static void test_begin(void **state)
{
	struct uw_memory both = {.read = read_both};
	struct fixture *f = *state;
	struct program p;

	put_stack(f, &p);
	f->stack[0] = SILENT + 9;
	f->regs[UW_X86_BP] = word_address(INTERPRETED);
	f->regs[UW_X86_DI] = p.f;
	fixture_space(f, 6, &both);
	uw_space_set_script(f->space, p.js);
	run(f, JIT + 0x40);
	EXPECT(f, named(p.f), named(p.g), FOUND(SILENT + 0x20), FOUND(ROOTED + 1));
	f->regs[UW_X86_DI] = p.g; /* not what runs here */
	run(f, JIT + 0x40);
	EXPECT(f, JIT + 0x40, named(p.g), FOUND(SILENT + 0x20), FOUND(ROOTED + 1));
	end_stack(f, &p);
}

/* A handler of a bytecode has no frame.  The function's frame has the return address that the handler has, too. */
static void test_handler(void **state)
{
	enum { HANDLER = SILENT + 0x1000 };
	struct fixture *f = *state;
	struct program p;

	put_stack(f, &p);
	f->maps[0].end = HANDLER + 0x1000;
	put_frame(f, COMPILED, INTERPRETED, SILENT + 9, p.g);
	f->stack[COMPILED - 4] = f->stack[INTERPRETED - 4];
	f->stack[0] = SILENT + 9;
	fixture_space(f, 6, &sc.memory);
	uw_space_set_script(f->space, p.js);
	run(f, HANDLER);
	assert_int_equal(f->frames[0], HANDLER);
	assert_int_equal(f->frames[1], named(p.g));
	end_stack(f, &p);
}

/* Frames that are none: numbers, other objects, memory that cannot be read. */
static void test_wrong_frames(void **state)
{
	static const uint64_t values[] = {
		0, 1, 5, UINT64_MAX, SC_BASE + 1, SC_BASE + SC_BYTES - 7, 1ull << 47 | 1};
	struct fixture *f = *state;
	struct program p;

	put_stack(f, &p);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		f->stack[COMPILED - 2] = values[i];
		f->stack[INTERPRETED - 2] = values[i];
		run(f, JIT + 0x10 + i);
		EXPECT(f, JIT + 0x10 + i, FOUND(SILENT + 9), FOUND(SILENT + 0x20),
		       FOUND(ROOTED + 1));
	}
	end_stack(f, &p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_constants),
		cmocka_unit_test(test_unsupported),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_wrong_names),
		TEST(test_stack),
		TEST(test_proof),
		TEST(test_own),
		TEST(test_described),
		TEST(test_begin),
		TEST(test_handler),
		TEST(test_wrong_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
