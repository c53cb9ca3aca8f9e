/* fuzz-python.c - the memory of a process with CPython with changes: the input is a list of changes.
 *
 *   [minor u8] then changes: [when u8][offset u16][value u64]     when: 0 from the start, else at that read
 *
 * Names have an end, and the layout stays within what the engine accepts.  Then stacks are unwound with a loop in code with frame
 * pointers: first as they are, then with what the input puts on the stack, into registers and into frames that a BPF program
 * copied.  Each stack reads so many pages at most, and has its frames. */
#include "tests/fuzz/interpreter-stacks.h"
#include "tests/unit/unwinder/python-fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { READS_MAX = 80 };

static void count_line(void *arg, const struct uw_line *line)
{
	*(size_t *)arg += strlen(line->function) + (line->file ? strlen(line->file) : 0);
}

/* Runs of the loop, LOOP_STEP words each, with frames that lead from one to the next. */
static void make_stack(struct world *w, struct py_process *p, uint64_t code)
{
	uint64_t frame = py_frame(p, code, 0, true);

	/* By their sizes the frames are directly behind each other. */
	py_set(p, code + (p->minor == 11 ? 76 : 72), 3, 4);
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
	world_registers(w, TEXT + 1, LOOP_STEP - 2);
	w->regs[UW_X86_BX] = frame;
	w->regs[UW_X86_R8 + 4] = py_bytecode(p, code);
	for (size_t i = 0; i < EXACT; i++)
		memcpy(w->exact + i * UW_PYTHON_WORDS,
		       (uint64_t[]){(frame + 80 * i) | (i % 2 ? (code >> 4 & 0x1fff) << 48 : 0),
				    code, frame + 80 * (i + 1)},
		       24);
}

static void run_stacks(struct changing *c, struct py_process *p, const struct uw_python *layout,
		       uint64_t code)
{
	static struct world w;
	const struct uw_map map = {.start = TEXT, .end = TEXT + 0x1000};
	struct uw_python looped = *layout;
	struct uw_module *module;

	looped.eval_start = TEXT;
	looped.eval_end = TEXT + 64;
	module = interpreter_module(UW_PYTHON_PATH, &looped, NULL);
	w = (struct world){.time = 1, .reads_max = READS_MAX, .copied = true};
	world_begin(&w, &map, 1, c, module);
	make_stack(&w, p, code);
	world_run(&w, c);
	world_end(&w);
	(void)uw_module_unref(module);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct py_process p;
	struct changing c = {
		.process = &p.memory, .bytes = p.bytes, .room = PY_BYTES, .reads = &p.reads};
	const struct uw_python *layout;
	struct python *python;
	uint64_t codes[3], file;
	size_t len = 0;

	if (!size)
		return 0;
	py_process_init(&p, 11 + data[0] % 3);
	file = py_string(&p, "/x/work.py", false);
	codes[0] = py_code(&p, py_string(&p, "main", false), file, 1);
	codes[1] = py_code(&p, py_string(&p, "wide", true), file, 2);
	codes[2] = PY_BASE + (size > 3 ? data[3] * 64u : 0);
	changing_begin(&c, 2, data + 1, size - 1);
	if (python_new(&c.memory, PY_BASE, &python) < 0)
		return 0;
	layout = python_layout(python);
	if (layout->eval_end < layout->eval_start || layout->frame > 15 || layout->next > 15)
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		(void)python_lines(python, &c.memory, codes[i], count_line, &len);
	run_stacks(&c, &p, layout, codes[0]);
	(void)python_free(python);
	return len > 3 * 2 * (4 * 512 + 1) ? abort(), 0 : 0;
}
