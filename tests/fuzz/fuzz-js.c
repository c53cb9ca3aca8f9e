/* fuzz-js.c - the memory of a process with V8 with changes: the input is a list of changes.
 *
 *   changes: [when u8][offset u16][value u64]     when: 0 from the start, else at that read
 *
 * Names have an end, and constants stay within their limits.  Then stacks are unwound that have frames of interpreted and compiled
 * functions: first as they are, then with what the input puts on the stack and into registers.  Each stack reads so many pages at
 * most, and has its frames. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "tests/unit/unwinder/v8-fixture.h"
#include "unwinder/unwinder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHANGE = 11, CHANGES_MAX = 64 };

struct changing {
	struct uw_memory memory;
	struct sc_process process;
	const uint8_t *changes;
	size_t n;
};

static void apply(struct changing *c, size_t i)
{
	const uint8_t *change = c->changes + i * CHANGE;
	uint32_t offset = change[1] | (uint32_t)change[2] << 8;

	memcpy(c->process.bytes + offset % (SC_BYTES - 8), change + 3, 8);
}

static ssize_t changing_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct changing *c = container_of(memory, struct changing, memory);

	for (size_t i = 0; i < c->n; i++)
		if (c->changes[i * CHANGE] == c->process.reads % 255 + 1)
			apply(c, i);
	return sc_read(&c->process.memory, address, to, len);
}

/* ---- the heap ---- */

struct heap {
	uint64_t compiled, interpreted; /* JSFunction */
	uint64_t bytecode;
	uint64_t shared;
};
#define TEXT 0x400000ull
#define CODE 0x600000ull
#define STACK 0x7fff00000000ull
enum { CODE_BYTES = 0x1000 };

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

enum { WORDS = 128, FRAMES = 100, STEP = 16, READS_MAX = 300 };

struct world {
	struct uw_module *js, *jit;
	struct uw_space *space;
	struct uw_engine *engine;
	uint64_t regs[UW_X86_COUNT], stack[WORDS], time;
};

/* As a process that has parsed it sends it. */
static int module_of(const struct uw_script *script, struct uw_module **ret_module)
{
	static const struct uw_vm_code none;
	static const struct uw_python python;
	uint8_t bytes[1024];
	struct packer to = {.data = bytes, .room = sizeof(bytes)};
	struct cursor from;

	packer_u64(&to, 0);
	packer_u64(&to, 1);
	packer_u64(&to, UW_ARCH_NONE);
	packer_u64(&to, 0);
	for (size_t i = 0; i < 3; i++) {
		packer_u64(&to, 0);
		packer_block(&to, NULL, 0);
	}
	packer_block(&to, &none, sizeof(none));
	packer_block(&to, &python, sizeof(python));
	packer_block(&to, script, sizeof(*script));
	packer_u64(&to, 0);
	from = cursor_of(bytes, to.len);
	if (uw_module_new(UW_MODULE_JIT, UW_JS_PATH, NULL, ret_module) < 0)
		return -1;
	return uw_module_unpack(*ret_module, &from, -1);
}

/* Frames of STEP words, interpreted and compiled in turn. */
static void make_stack(struct world *w, const struct heap *h)
{
	for (size_t i = STEP / 2, k = 0; i + 2 < WORDS; i += STEP, k++) {
		bool last = i + STEP + 2 >= WORDS;

		w->stack[i] = last ? 0 : STACK + 8 * (i + STEP);
		w->stack[i + 1] = last ? 0 : k % 2 ? CODE + 0x40 : TEXT + 0x40;
		w->stack[i - 1] = h->shared;
		w->stack[i - 2] = k % 2 ? h->interpreted : h->compiled;
		w->stack[i - 4] = h->bytecode;
	}
	w->regs[UW_X86_IP] = CODE + 0x10;
	w->regs[UW_X86_SP] = STACK;
	w->regs[UW_X86_BP] = STACK + 8 * (STEP / 2);
	w->regs[UW_X86_DI] = h->compiled;
}

/* Returns how many functions there are. */
static size_t run_stack(struct world *w, struct sc_process *p)
{
	uint64_t frames[FRAMES], before = p->reads;
	struct uw_snapshot snapshot = {.space = w->space,
				       .regs = w->regs,
				       .arch = UW_ARCH_X86_64,
				       .stack_len = sizeof(w->stack),
				       .stack = (const uint8_t *)w->stack,
				       .time = w->time += 30000000};
	struct uw_result res = {.frames = frames, .max_frames = FRAMES};
	size_t n = 0;

	if (uw_unwind_batch(w->engine, &snapshot, 1, &res) < 0 || res.n_frames > FRAMES ||
	    p->reads - before > READS_MAX)
		abort();
	for (uint32_t i = 0; i < res.n_frames; i++)
		n += !!(frames[i] & UW_FRAME_SCRIPT);
	return n;
}

static void run_stacks(struct changing *c, const struct uw_script *script, const struct heap *h)
{
	static struct world w;
	struct uw_map maps[2] = {{.start = TEXT, .end = TEXT + CODE_BYTES},
				 {.start = CODE, .end = CODE + CODE_BYTES}};

	w = (struct world){0};
	if (module_of(script, &w.js) < 0 ||
	    uw_module_new(UW_MODULE_JIT, "/tmp/perf-1.map", NULL, &w.jit) < 0)
		abort();
	uw_module_set_unreadable(w.jit);
	maps[1].module = w.jit;
	if (uw_space_new(maps, 2, 7, &c->memory, &w.space) < 0 ||
	    uw_engine_new(UW_ENGINE_NATIVE, &w.engine) < 0)
		abort();
	uw_space_set_script(w.space, w.js);
	make_stack(&w, h);
	if (!run_stack(&w, &c->process) && !c->n)
		abort();
	for (size_t i = 0; i < c->n; i++) {
		const uint8_t *change = c->changes + i * CHANGE;
		uint64_t *to = change[0] % 2 ? w.regs : w.stack;
		size_t at = change[1] % (change[0] % 2 ? (size_t)UW_X86_COUNT : (size_t)WORDS);

		if (to == w.stack || (at != UW_X86_SP && at != UW_X86_IP))
			memcpy(&to[at], change + 3, 8);
		(void)run_stack(&w, &c->process);
	}
	(void)uw_engine_free(w.engine);
	(void)uw_space_unref(w.space);
	(void)uw_module_unref(w.js);
	(void)uw_module_unref(w.jit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct changing c;
	struct uw_script script;
	struct vm_memory m;
	struct heap heap;
	int r;

	v8_process_init(&c.process, NULL);
	heap = make_heap(&c.process);
	c.memory.read = changing_read;
	c.changes = data;
	c.n = min_u64(size / CHANGE, CHANGES_MAX);
	for (size_t i = 0; i < c.n; i++)
		if (!c.changes[i * CHANGE])
			apply(&c, i);
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
