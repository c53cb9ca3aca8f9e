/* fuzz-stg.c - stacks of GHC's code in a process that is hostile: the input is its stack in the heap, its info tables, and how much of
 * the stack a BPF program copied.
 *
 *   [words copied u8][offset of rbp u8] then TABLES_BYTES of code, then the words of the heap: the values 0 to 63 stand for addresses in
 *   that code, 64 to 127 for addresses in the heap
 *
 * The code from the process is GHC's by the rule that the engine keeps (native-guess.c).  A stack has so many frames, is read so
 * often, and its frames are addresses of the code. */
#include <stdlib.h>
#include <string.h>

#include "unwinder/native.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	TABLES_BYTES = 512,
	HEAP_WORDS = 2048,
	COPY_MAX = 255,
	WORDS = 2200,
	FRAMES = 200,
	READS_MAX = 4096
};
#define TEXT 0x400000ull
#define HEAP 0x4200000000ull
#define STACK 0x7fff00000000ull
#define PC (TEXT + TABLES_BYTES - 2)

struct world {
	struct uw_memory memory;
	uint8_t code[TABLES_BYTES];
	uint64_t heap[HEAP_WORDS], reads;
};

static ssize_t world_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct world *w = container_of(memory, struct world, memory);
	const uint8_t *from = w->code;
	uint64_t start = TEXT, size = sizeof(w->code);

	w->reads++;
	if (address >= HEAP) {
		from = (const uint8_t *)w->heap;
		start = HEAP;
		size = sizeof(w->heap);
	}
	if (address < start || address - start >= size)
		return -1;
	len = min_u64(len, size - (address - start));
	memcpy(to, from + (address - start), len);
	return (ssize_t)len;
}

static void fill(struct world *w, const uint8_t *data, size_t size)
{
	size_t n = min_u64(size, sizeof(w->code));

	*w = (struct world){.memory = {.read = world_read}};
	memcpy(w->code, data, n);
	memcpy(w->heap, data + n, min_u64(size - n, sizeof(w->heap)));
	for (size_t i = 0; i < HEAP_WORDS; i++)
		if (w->heap[i] < 64)
			w->heap[i] = TEXT + 16 + 8 * w->heap[i];
		else if (w->heap[i] < 128)
			w->heap[i] = HEAP + 128 * (w->heap[i] - 64);
}

static void run(struct world *w, struct uw_engine *engine, struct uw_space *space, uint64_t bp,
		uint32_t n_copied)
{
	static const uint64_t stack[WORDS];
	uint64_t regs[UW_X86_COUNT] = {[UW_X86_IP] = PC, [UW_X86_SP] = STACK, [UW_X86_BP] = bp};
	uint64_t frames[FRAMES], copy[COPY_MAX * UW_PYTHON_WORDS];
	struct uw_snapshot snapshot = {.space = space,
				       .regs = regs,
				       .arch = UW_ARCH_X86_64,
				       .stack = (const uint8_t *)stack,
				       .stack_len = sizeof(stack),
				       .time = 1,
				       .python = copy,
				       .n_python = n_copied};
	struct uw_result res = {.frames = frames, .max_frames = FRAMES};

	copy[0] = bp;
	memcpy(copy + 1, w->heap, sizeof(copy) - 8);
	w->reads = 0;
	if (uw_unwind_batch(engine, &snapshot, 1, &res) < 0 || res.n_frames > FRAMES ||
	    w->reads > READS_MAX || !res.stg || frames[0] != PC)
		abort();
	for (uint32_t i = 1; i < res.n_frames; i++)
		if (frames[i] < TEXT || frames[i] >= TEXT + 0x1000)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world w;
	struct uw_map map = {.start = TEXT, .end = TEXT + 0x1000};
	const struct rule_key key = rule_key(7);
	struct uw_engine *engine;
	struct uw_space *space;
	struct native *e;

	if (size < 2)
		return 0;
	fill(&w, data + 2, size - 2);
	if (uw_module_new(UW_MODULE_FILE, "/x/haskell", NULL, &map.module) < 0 ||
	    uw_space_new(&map, 1, 7, &w.memory, &space) < 0 ||
	    uw_engine_new(UW_ENGINE_NATIVE, &engine) < 0)
		abort();
	e = container_of(engine, struct native, engine);
	rule_cache_add(&e->by_pc, &key, PC,
		       rule_with_form(rule_with_way(rule_guess(RULE_NO_CFI, RULE_FORM_STG), 0, 0),
				      RULE_FORM_STG));
	e->has_stg = true;
	for (int round = 0; round < 3; round++) /* what is read is kept */
		run(&w, engine, space, HEAP + data[1] * (round < 2 ? 1u : 8u),
		    round ? data[0] : 0u);
	(void)uw_engine_free(engine);
	(void)uw_space_unref(space);
	(void)uw_module_unref(map.module);
	return 0;
}
