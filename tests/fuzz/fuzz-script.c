/* fuzz-script.c - the memory of a process with PHP or Ruby with changes: the input is a list of them.
 *
 *   [language u8] then changes: [when u8][offset u16][value u64]     when: 0 from the start, else at that read
 *
 * Names have an end, and the layout stays within what the engine accepts.  Then stacks are unwound whose loop is in code with frame
 * pointers: first as they are, then with what the input puts on the stack, into registers and into frames that a BPF program
 * copied.  Each stack reads so many pages at most, and has its frames. */
#include <string.h>

#include "base/bytes.h"
#include "tests/unit/unwinder/script-fixture.h"
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

/* ---- stacks ---- */

enum { WORDS = 128, FRAMES = 100, LOOP_STEP = 16, READS_MAX = 80, EXACT = 8 };
#define TEXT 0x400000ull
#define STACK 0x7fff00000000ull

struct world {
	struct uw_module *module;
	struct uw_space *space;
	struct uw_engine *engine;
	uint64_t regs[UW_X86_COUNT], stack[WORDS], exact[EXACT * UW_PYTHON_WORDS];
};

/* As a process that has parsed it sends it. */
static int module_of(struct uw_script script, const char *path, struct uw_module **ret_module)
{
	static const struct uw_vm_code none;
	static const struct uw_python python;
	uint8_t bytes[1024];
	struct packer to = {.data = bytes, .room = sizeof(bytes)};
	struct cursor from;

	script.eval_start = TEXT;
	script.eval_end = TEXT + 64;
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
	packer_block(&to, &script, sizeof(script));
	packer_u64(&to, 0);
	from = cursor_of(bytes, to.len);
	if (uw_module_new(UW_MODULE_JIT, path, NULL, ret_module) < 0)
		return -1;
	return uw_module_unpack(*ret_module, &from, -1);
}

/* Runs of the loop, LOOP_STEP words each.  Returns the innermost frame. */
static uint64_t make_stack(struct world *w, struct sc_process *p, uint64_t function)
{
	uint64_t frames = p->ruby ? sc_ruby_frames(p) : 0, frame = 0, code = sc_code(p, function);

	for (size_t i = 0; i + LOOP_STEP < WORDS; i += LOOP_STEP) {
		bool last = i + 2 * LOOP_STEP >= WORDS;

		w->stack[i + LOOP_STEP - 2] = last ? 0 : STACK + 8 * (i + 2 * LOOP_STEP - 2);
		w->stack[i + LOOP_STEP - 1] = last ? 0 : TEXT + 2;
		if (!p->ruby) {
			frame = sc_php_frame(p, function, code + 32, frame, i % 32);
			w->stack[i + SC_SAVED_FRAME / 8] = frame;
			w->stack[i + SC_SAVED_NEXT / 8] = code + 64;
		}
	}
	for (uint64_t i = 0; p->ruby && i < 8; i++)
		sc_ruby_frame(p, frames + 64 * i, function, code + 8 * i, 0x11110001 | i << 3);
	w->regs[UW_X86_IP] = TEXT + 1;
	w->regs[UW_X86_SP] = STACK;
	w->regs[UW_X86_BP] = STACK + 8 * (LOOP_STEP - 2);
	w->regs[UW_X86_R8 + 6] = p->ruby ? code + 8 : frame;
	w->regs[UW_X86_R15] = p->ruby ? frames : code + 32;
	return p->ruby ? frames : frame;
}

/* Returns how many functions there are. */
static size_t run_stack(struct world *w, struct sc_process *p, uint32_t n_exact)
{
	uint64_t frames[FRAMES], before = p->reads;
	struct uw_snapshot snapshot = {.space = w->space,
				       .regs = w->regs,
				       .arch = UW_ARCH_X86_64,
				       .stack_len = sizeof(w->stack),
				       .stack = (const uint8_t *)w->stack,
				       .time = 1,
				       .python = w->exact,
				       .n_python = n_exact};
	struct uw_result res = {.frames = frames, .max_frames = FRAMES};
	size_t n = 0;

	if (uw_unwind_batch(w->engine, &snapshot, 1, &res) < 0 || res.n_frames > FRAMES ||
	    p->reads - before > READS_MAX)
		abort();
	for (uint32_t i = 0; i < res.n_frames; i++)
		n += !!(frames[i] & UW_FRAME_SCRIPT);
	return n;
}

static void run_stacks(struct changing *c, const struct uw_script *script, uint64_t function)
{
	static struct world w;
	const struct uw_map map = {.start = TEXT, .end = TEXT + 0x1000};

	w = (struct world){0};
	if (module_of(*script, c->process.ruby ? UW_RUBY_PATH : UW_PHP_PATH, &w.module) < 0 ||
	    uw_space_new(&map, 1, 7, &c->memory, &w.space) < 0 ||
	    uw_engine_new(UW_ENGINE_NATIVE, &w.engine) < 0)
		abort();
	uw_space_set_script(w.space, w.module);
	w.exact[0] = make_stack(&w, &c->process, function);
	if (!run_stack(&w, &c->process, 0) && !c->n)
		abort();
	(void)run_stack(&w, &c->process, EXACT);
	for (size_t i = 0; i < c->n; i++) {
		uint64_t *const places[] = {w.stack, w.regs, w.exact, w.stack};
		static const size_t n[] = {WORDS, UW_X86_COUNT, EXACT * UW_PYTHON_WORDS, WORDS};
		const uint8_t *change = c->changes + i * CHANGE;
		size_t at = change[1] % n[change[0] % 4];

		if (change[0] % 4 != 1 || (at != UW_X86_SP && at != UW_X86_IP))
			memcpy(&places[change[0] % 4][at], change + 3, 8);
		(void)run_stack(&w, &c->process, (uint32_t)i % (EXACT + 1));
	}
	(void)uw_engine_free(w.engine);
	(void)uw_space_unref(w.space);
	(void)uw_module_unref(w.module);
}

static void run_names(struct changing *c, struct uw_script *script, uint64_t function)
{
	struct vm_memory m;
	struct script_text text;

	if (vm_memory_begin(&m, &c->memory, 4) < 0)
		abort();
	for (uint64_t position = 0; position <= 0xfff; position += 0xbb) {
		uint64_t frame = uw_script_frame(function, position);
		bool found = c->process.ruby ? ruby_text(&m, script, SC_BASE, frame, &text)
					     : php_text(&m, script, frame, &text);

		if (found && (strlen(text.function) >= sizeof(text.function) ||
			      strlen(text.file) >= sizeof(text.file)))
			abort();
	}
	vm_memory_end(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct changing c;
	struct uw_script script;
	struct vm_memory m;
	uint64_t functions[3], file;
	int r;

	if (!size)
		return 0;
	if (data[0] & 1)
		sc_ruby_init(&c.process);
	else
		sc_php_init(&c.process);
	file = sc_string(&c.process, "/x/work");
	functions[0] = data[0] & 1 ? sc_ruby_function(&c.process, "main", file, 1, 200)
				   : sc_php_function(&c.process, 0, "main", file, 1);
	functions[1] = SC_BASE + (size > 3 ? data[3] * 64u : 0);
	functions[2] = sc_heap(&c.process, 64);
	sc_set(&c.process, functions[2], data[0] & 1 ? 0x1a | 6 << 12 : 1, 8);
	c.memory.read = changing_read;
	c.changes = data + 1;
	c.n = min_u64((size - 1) / CHANGE, CHANGES_MAX);
	for (size_t i = 0; i < c.n; i++)
		if (!c.changes[i * CHANGE])
			apply(&c, i);
	if (vm_memory_begin(&m, &c.memory, 4) < 0)
		return 0;
	r = c.process.ruby ? ruby_new(&m, SC_BASE, &script) : php_new(&m, SC_BASE, &script);
	vm_memory_end(&m);
	if (r < 0)
		return c.n ? 0 : (abort(), 0);
	if (script.eval_end < script.eval_start || script.frame > 15 || script.next > 15)
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		run_names(&c, &script, functions[i]);
	run_stacks(&c, &script, functions[0]);
	return 0;
}
