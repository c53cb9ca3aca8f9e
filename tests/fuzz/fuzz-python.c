/* fuzz-python.c - the memory of a process with CPython with changes: the input is a list of changes.
 *
 *   [minor u8] then changes: [when u8][offset u16][value u64]     when: 0 from the start, else at that read
 *
 * Names have an end, and the layout stays within what the engine accepts.  Then stacks are unwound whose loop is in code with frame
 * pointers: first as they are, then with what the input puts on the stack, into registers and into frames that a BPF program
 * copied.  Each stack reads so many pages at most, and has its frames. */
#include <string.h>

#include "base/bytes.h"
#include "tests/unit/unwinder/python-fixture.h"
#include "unwinder/unwinder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHANGE = 11, CHANGES_MAX = 64 };

struct changing {
	struct uw_memory memory;
	struct py_process process;
	const uint8_t *changes;
	size_t n;
};

static void apply(struct changing *c, size_t i)
{
	const uint8_t *change = c->changes + i * CHANGE;
	uint32_t offset = change[1] | (uint32_t)change[2] << 8;

	memcpy(c->process.bytes + offset % (PY_BYTES - 8), change + 3, 8);
}

static ssize_t changing_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct changing *c = container_of(memory, struct changing, memory);

	for (size_t i = 0; i < c->n; i++)
		if (c->changes[i * CHANGE] == c->process.reads % 255 + 1)
			apply(c, i);
	return py_read(&c->process.memory, address, to, len);
}

static void count_line(void *arg, const struct uw_line *line)
{
	*(size_t *)arg += strlen(line->function) + (line->file ? strlen(line->file) : 0);
}

/* ---- stacks ---- */

enum { WORDS = 128, FRAMES = 100, EXACT = 8, LOOP_STEP = 16, READS_MAX = 80 };
#define TEXT 0x400000ull
#define STACK 0x7fff00000000ull

struct world {
	struct uw_module *module;
	struct uw_space *space;
	struct uw_engine *engine;
	uint64_t regs[UW_X86_COUNT], stack[WORDS], exact[EXACT * UW_PYTHON_WORDS];
};

/* As a process that has parsed it sends it. */
static int module_of(struct uw_python layout, struct uw_module **ret_module)
{
	static const struct uw_vm_code none;
	static const struct uw_script script;
	uint8_t bytes[1024];
	struct packer to = {.data = bytes, .room = sizeof(bytes)};
	struct cursor from;

	layout.eval_start = TEXT;
	layout.eval_end = TEXT + 64;
	packer_u64(&to, 0);
	packer_u64(&to, 1);
	packer_u64(&to, UW_ARCH_NONE);
	packer_u64(&to, 0);
	for (size_t i = 0; i < 3; i++) {
		packer_u64(&to, 0);
		packer_block(&to, NULL, 0);
	}
	packer_block(&to, &none, sizeof(none));
	packer_block(&to, &layout, sizeof(layout));
	packer_block(&to, &script, sizeof(script));
	packer_u64(&to, 0);
	from = cursor_of(bytes, to.len);
	if (uw_module_new(UW_MODULE_JIT, UW_PYTHON_PATH, NULL, ret_module) < 0)
		return -1;
	return uw_module_unpack(*ret_module, &from, -1);
}

/* Runs of the loop, LOOP_STEP words each, with frames that lead from one to the next. */
static void make_stack(struct world *w, struct py_process *p, uint64_t code)
{
	uint64_t frame = py_frame(p, code, 0, true);

	for (size_t i = 0; i + LOOP_STEP < WORDS; i += LOOP_STEP) {
		bool last = i + 2 * LOOP_STEP >= WORDS;
		uint64_t entry = STACK + 8 * (i + 1);

		w->stack[i + LOOP_STEP - 2] = last ? 0 : STACK + 8 * (i + 2 * LOOP_STEP - 2);
		w->stack[i + LOOP_STEP - 1] = last ? 0 : TEXT + 2;
		if (p->minor == 11)
			w->stack[i + 2] = frame;
		else
			py_frame_put(p, (uint8_t *)&w->stack[i + 1], p->none, frame, 3, false);
		frame = py_frame(p, code, py_frame(p, code, entry, true), false);
	}
	w->regs[UW_X86_IP] = TEXT + 1;
	w->regs[UW_X86_SP] = STACK;
	w->regs[UW_X86_BP] = STACK + 8 * (LOOP_STEP - 2);
	w->regs[UW_X86_BX] = frame;
	w->regs[UW_X86_R8 + 4] = py_bytecode(p, code);
	for (size_t i = 0; i < EXACT; i++)
		memcpy(w->exact + i * UW_PYTHON_WORDS,
		       (uint64_t[]){frame + 80 * i, code, frame + 80 * (i + 1)}, 24);
}

/* Returns how many Python functions there are. */
static size_t run_stack(struct world *w, struct py_process *p, uint32_t n_exact)
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
	for (uint32_t i = 0; i < res.n_frames; i++) {
		n += !!(frames[i] & UW_FRAME_SCRIPT);
		if (!(frames[i] & UW_FRAME_SCRIPT) && uw_frame_pc(frames[i]) >> 48)
			abort();
	}
	return n;
}

static void run_stacks(struct changing *c, const struct uw_python *layout, uint64_t code)
{
	static struct world w;
	const struct uw_map map = {.start = TEXT, .end = TEXT + 0x1000};

	w = (struct world){0};
	if (module_of(*layout, &w.module) < 0 ||
	    uw_space_new(&map, 1, 7, &c->memory, &w.space) < 0 ||
	    uw_engine_new(UW_ENGINE_NATIVE, &w.engine) < 0)
		abort();
	uw_space_set_script(w.space, w.module);
	make_stack(&w, &c->process, code);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct changing c;
	const struct uw_python *layout;
	struct python *python;
	uint64_t codes[3], file;
	size_t len = 0;

	if (!size)
		return 0;
	py_process_init(&c.process, 11 + data[0] % 3);
	file = py_string(&c.process, "/x/work.py", false);
	codes[0] = py_code(&c.process, py_string(&c.process, "main", false), file, 1);
	codes[1] = py_code(&c.process, py_string(&c.process, "wide", true), file, 2);
	codes[2] = PY_BASE + (size > 3 ? data[3] * 64u : 0);
	c.memory.read = changing_read;
	c.changes = data + 1;
	c.n = min_u64((size - 1) / CHANGE, CHANGES_MAX);
	for (size_t i = 0; i < c.n; i++)
		if (!c.changes[i * CHANGE])
			apply(&c, i);
	if (python_new(&c.memory, PY_BASE, &python) < 0)
		return 0;
	layout = python_layout(python);
	if (layout->eval_end < layout->eval_start || layout->frame > 15 || layout->next > 15)
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		(void)python_lines(python, &c.memory, codes[i], count_line, &len);
	run_stacks(&c, layout, codes[0]);
	(void)python_free(python);
	return len > 3 * 2 * (4 * 512 + 1) ? abort(), 0 : 0;
}
