/* fuzz-js.c - the memory of a process with V8 with changes: the input is a list of changes.
 *
 *   changes: [when u8][offset u16][value u64]     when: 0 from the start, else at that read
 *
 * Names have an end, and constants stay within their limits.  Then stacks are unwound that have frames of interpreted and compiled
 * functions: first as they are, then with what the input puts on the stack and into registers.  Each stack reads so many pages at
 * most, and has its frames. */
#include "tests/fuzz/interpreter-stacks.h"
#include "tests/unit/unwinder/v8-fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the heap ---- */

struct heap {
	uint64_t compiled, interpreted; /* JSFunction */
	uint64_t bytecode;
	uint64_t shared;
};
#define CODE 0x600000ull
enum { CODE_BYTES = 0x1000, READS_MAX = 300 };

static struct heap make_heap(struct sc_process *p)
{
	uint64_t undefined = V8_OBJECT(p, 131, 0, 0), name = v8_string(p, "/x/work.js");
	uint64_t pieces = V8_OBJECT(p, V8_CONS, 16ull << 32, v8_string(p, "file://"), name);
	uint64_t source = v8_string(p, "one\ntwo\nthree\n");
	uint64_t script = V8_OBJECT(p, V8_SCRIPT, source, pieces, 0, 0, 0);
	uint64_t part = V8_OBJECT(p, V8_SLICED, 4ull << 32, source, v8_smi(4));
	struct heap h = {.shared = v8_shared(p, script, part, undefined, 5, 9)};
	uint64_t other = v8_shared(p, script, v8_string(p, ""), undefined, 9, 12);

	h.bytecode = v8_word(p, h.shared, 8);
	h.interpreted = v8_js_function(p, h.shared, TEXT, CODE_BYTES);
	h.compiled = v8_js_function(p, other, CODE, CODE_BYTES);
	return h;
}

static void check_text(const struct script_text *text)
{
	if (!memchr(text->function, 0, sizeof(text->function)) ||
	    !memchr(text->file, 0, sizeof(text->file)))
		abort();
}

static void run_names(struct changing *c, const struct uw_v8 *v8, const struct heap *h)
{
	struct v8_lines *lines = NULL;
	struct script_text text;
	struct v8_function f;
	struct vm_memory m;

	if (vm_memory_begin(&m, &c->memory, 4) < 0)
		abort();
	if (v8_function(&m, v8, h->interpreted, &f) && v8_text(&m, v8, &lines, f.frame, &text))
		check_text(&text);
	if (v8_function(&m, v8, h->compiled, &f) && v8_text(&m, v8, &lines, f.frame, &text))
		check_text(&text);
	for (uint64_t position = 0; position <= 0xfff; position += 0xbb)
		if (v8_text(&m, v8, &lines, uw_script_frame(h->shared - 1, position), &text))
			check_text(&text);
	(void)v8_lines_free(lines);
	vm_memory_end(&m);
}

/* ---- stacks ---- */

/* Frames of LOOP_STEP words, interpreted and compiled in turn. */
static void make_stack(struct world *w, const struct heap *h)
{
	for (size_t i = LOOP_STEP / 2, k = 0; i + 2 < WORDS; i += LOOP_STEP, k++) {
		bool last = i + LOOP_STEP + 2 >= WORDS;

		w->stack[i] = last ? 0 : STACK + 8 * (i + LOOP_STEP);
		w->stack[i + 1] = last ? 0 : k % 2 ? CODE + 0x40 : TEXT + 0x40;
		w->stack[i - 1] = h->shared;
		w->stack[i - 2] = k % 2 ? h->interpreted : h->compiled;
		w->stack[i - 4] = h->bytecode;
	}
	world_registers(w, CODE + 0x10, LOOP_STEP / 2);
	w->regs[UW_X86_DI] = h->compiled;
}

static void run_stacks(struct changing *c, const struct uw_script *script, const struct heap *h)
{
	static struct world w;
	struct uw_map maps[2] = {{.start = TEXT, .end = TEXT + CODE_BYTES},
				 {.start = CODE, .end = CODE + CODE_BYTES}};
	struct uw_module *js = interpreter_module(UW_JS_PATH, NULL, script), *jit;

	if (uw_module_new(UW_MODULE_JIT, "/tmp/perf-1.map", NULL, &jit) < 0)
		abort();
	uw_module_set_unreadable(jit);
	maps[1].module = jit;
	w = (struct world){.step = 30000000, .reads_max = READS_MAX};
	world_begin(&w, maps, 2, c, js);
	make_stack(&w, h);
	world_run(&w, c);
	world_end(&w);
	(void)uw_module_unref(js);
	(void)uw_module_unref(jit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sc_process p;
	struct changing c = {
		.process = &p.memory, .bytes = p.bytes, .room = SC_BYTES, .reads = &p.reads};
	struct uw_script script;
	struct vm_memory m;
	struct heap heap;
	int r;

	v8_process_init(&p, NULL);
	heap = make_heap(&p);
	changing_begin(&c, 2, data, size);
	if (vm_memory_begin(&m, &c.memory, 4) < 0)
		return 0;
	r = v8_new(&m, SC_BASE, &script);
	vm_memory_end(&m);
	if (r < 0)
		return c.n ? 0 : (abort(), 0);
	if (script.v8.fp_function >= 0 || script.v8.shared < 0 || script.v8.chars < 0)
		abort();
	run_names(&c, &script.v8, &heap);
	run_stacks(&c, &script, &heap);
	return 0;
}
