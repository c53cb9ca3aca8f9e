/* fuzz-script.c - the memory of a process with PHP or Ruby with changes: the input is a list of them.
 *
 *   [language u8] then changes: [when u8][offset u16][value u64]     when: 0 from the start, else at that read
 *
 * Names have an end, and the layout stays within what the engine accepts.  Then stacks are unwound with a loop in code with frame
 * pointers: first as they are, then with what the input puts on the stack, into registers and into frames that a BPF program
 * copied.  Each stack reads so many pages at most, and has its frames. */
#include "tests/fuzz/interpreter-stacks.h"
#include "tests/unit/unwinder/script-fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { READS_MAX = 80 };

/* PHP: the frame behind that of a generator for which one with its frame at @waits waits, called with @outer. */
static uint64_t make_generators(struct sc_process *p, uint64_t running, uint64_t waits,
				uint64_t outer)
{
	uint64_t inner = sc_heap(p, 184), at = sc_heap(p, 272);

	sc_set(p, inner + 56, running, 8);
	sc_set(p, at + 56, waits, 8);
	sc_set(p, at + 152, inner, 8);
	sc_set(p, at + 184 + 32, at, 8);
	sc_set(p, at + 184 + 48, outer, 8);
	return at + 184;
}

/* Runs of the loop, LOOP_STEP words each.  Returns the innermost frame. */
static uint64_t make_stack(struct world *w, struct sc_process *p, uint64_t function)
{
	uint64_t frames = p->ruby ? sc_ruby_frames(p) : 0, frame = 0, behind,
		 code = sc_code(p, function);

	for (size_t i = 0; i + LOOP_STEP < WORDS; i += LOOP_STEP) {
		bool last = i + 2 * LOOP_STEP >= WORDS;

		w->stack[i + LOOP_STEP - 2] = last ? 0 : STACK + 8 * (i + 2 * LOOP_STEP - 2);
		w->stack[i + LOOP_STEP - 1] = last ? 0 : TEXT + 2;
		if (!p->ruby) {
			behind = frame;
			frame = sc_php_frame(p, function, code + 32, behind, i % 32);
			if (i == 3 * LOOP_STEP)
				sc_set(p, frame + 48, make_generators(p, frame, behind, behind), 8);
			w->stack[i + SC_SAVED_FRAME / 8] = frame;
			w->stack[i + SC_SAVED_NEXT / 8] = code + 64;
		}
	}
	for (uint64_t i = 0; p->ruby && i < 8; i++)
		sc_ruby_frame(p, frames + 64 * i, function, code + 8 * i, 0x11110001 | i << 3);
	world_registers(w, TEXT + 1, LOOP_STEP - 2);
	w->regs[UW_X86_R8 + 6] = p->ruby ? code + 8 : frame;
	w->regs[UW_X86_R15] = p->ruby ? frames : code + 32;
	return p->ruby ? frames : frame;
}

static void run_stacks(struct changing *c, struct sc_process *p, const struct uw_script *script,
		       uint64_t function)
{
	static struct world w;
	const struct uw_map map = {.start = TEXT, .end = TEXT + 0x1000};
	struct uw_script looped = *script;
	struct uw_module *module;

	looped.eval_start = TEXT;
	looped.eval_end = TEXT + 64;
	module = interpreter_module(p->ruby ? UW_RUBY_PATH : UW_PHP_PATH, NULL, &looped);
	w = (struct world){.time = 1, .reads_max = READS_MAX, .copied = true};
	world_begin(&w, &map, 1, c, module);
	w.exact[0] = make_stack(&w, p, function);
	world_run(&w, c);
	world_end(&w);
	(void)uw_module_unref(module);
}

static void run_names(struct changing *c, bool ruby, struct uw_script *script, uint64_t function)
{
	static struct php_declared declared;
	struct vm_memory m;
	struct script_text text;

	declared = (struct php_declared){.n = 0};
	if (vm_memory_begin(&m, &c->memory, 4) < 0)
		abort();
	for (uint64_t position = 0; position <= 0xfff; position += 0xbb) {
		uint64_t frame = uw_script_frame(function, position);
		bool found = ruby ? ruby_text(&m, script, SC_BASE, frame, &text)
				  : php_text(&m, script, &declared, frame, &text);

		if (!ruby)
			php_declare(&m, script, &declared, frame);

		if (found && (strlen(text.function) >= sizeof(text.function) ||
			      strlen(text.file) >= sizeof(text.file)))
			abort();
	}
	vm_memory_end(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sc_process p;
	struct changing c = {
		.process = &p.memory, .bytes = p.bytes, .room = SC_BYTES, .reads = &p.reads};
	struct uw_script script;
	struct vm_memory m;
	uint64_t functions[3], file;
	int r;

	if (!size)
		return 0;
	if (data[0] & 1)
		sc_ruby_init(&p);
	else
		sc_php_init(&p);
	file = sc_string(&p, "/x/work");
	functions[0] = data[0] & 1 ? sc_ruby_function(&p, "main", file, 1, 200)
				   : sc_php_function(&p, 0, "main", file, 1);
	functions[1] = SC_BASE + (size > 3 ? data[3] * 64u : 0);
	if (data[0] & 1) /* a method in Ruby or in C */
		functions[2] = sc_ruby_method(&p, data[0] >> 1 & 1, functions[0]);
	else
		sc_set(&p, functions[2] = sc_heap(&p, 64), 1, 8);
	if (!(data[0] & 1)) { /* it declares itself and the other one */
		uint64_t list = sc_heap(&p, 16);

		sc_set(&p, functions[0] + 180, 2, 4);
		sc_set(&p, functions[0] + 192, list, 8);
		sc_set(&p, list, functions[0], 8);
		sc_set(&p, list + 8, functions[2], 8);
	}
	changing_begin(&c, 2, data + 1, size - 1);
	if (vm_memory_begin(&m, &c.memory, 4) < 0)
		return 0;
	r = p.ruby ? ruby_new(&m, SC_BASE, &script) : php_new(&m, SC_BASE, &script);
	vm_memory_end(&m);
	if (r < 0)
		return c.n ? 0 : (abort(), 0);
	if (script.eval_end < script.eval_start || script.frame > 15 || script.next > 15)
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		run_names(&c, p.ruby, &script, functions[i]);
	run_stacks(&c, &p, &script, functions[0]);
	return 0;
}
