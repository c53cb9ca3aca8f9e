/* fuzz-cfi.c - any bytes as unwind sections, stack and registers, through the native engine.
 *
 *   [flags u8][pad u8][hdr len u16][eh len u16][debug len u16][pc u16][registers: 20 * u64]
 *   [.eh_frame_hdr][.eh_frame][.debug_frame][stack ...]
 *
 *   text: vaddr 0x1000 .. 0x11000 at 0x401000, sections at 0xf0000, 0x100000 and 0.  flags: 1 the
 * copy was full, 2 process memory (the stack again, and itself as code), 4 no table, 8 two maps,
 * the second without a module, 16 aarch64 (its registers are the 20 over and over) */
#include <string.h>

#include "unwinder/cfi.h"
#include "symbols/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 10, REGS = UW_X86_COUNT * 8, FRAMES = 128, SP = 0x7fff0000 };

struct input_memory {
	struct uw_memory memory;
	const uint8_t *data;
	size_t size;
};

static ssize_t input_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	const struct input_memory *m = container_of(memory, struct input_memory, memory);
	uint64_t at = address >= SP ? address - SP : address & 0xffff;

	if (at >= m->size)
		return -1;
	len = min_u64(len, m->size - at);
	memcpy(to, m->data + at, len);
	return (ssize_t)len;
}

/* The next @len bytes as a section, in memory of its own so that the sanitizer sees its end. */
static void section(struct uw_section *to, const uint8_t **data, size_t *left, size_t len,
		    uint64_t vaddr)
{
	len = min_u64(len, *left);
	if (!len)
		return;
	to->data = malloc(len);
	if (!to->data)
		abort();
	memcpy(to->data, *data, len);
	to->size = len;
	to->vaddr = vaddr;
	*data += len;
	*left -= len;
}

static size_t u16_at(const uint8_t *data)
{
	return data[0] | (size_t)data[1] << 8;
}

static void check(const struct uw_result *res)
{
	if (res->n_frames > FRAMES || res->outcome > UW_FAILED || res->reason >= UW_REASON_COUNT ||
	    (res->outcome == UW_FAILED || res->reason == UW_TOO_DEEP) != (res->reason != UW_OK))
		abort();
	for (uint32_t i = 0; i < res->n_frames; i++)
		if (uw_frame_pc(res->frames[i]) >> 48)
			abort();
}

/* The pc counts up from sample to sample; the stack pointer is near the copy, except where the input asks it to
 * stay as it is. */
static void registers(const uint8_t *head, size_t i, bool arm, uint64_t regs[UW_ARM64_COUNT])
{
	size_t sp = arm ? (size_t)UW_ARM64_SP : (size_t)UW_X86_SP;

	for (size_t reg = 0; reg < UW_ARM64_COUNT; reg++)
		memcpy(&regs[reg], head + HEAD + reg % UW_X86_COUNT * 8, 8);
	regs[arm ? (size_t)UW_ARM64_PC : (size_t)UW_X86_IP] = 0x401000 + u16_at(head + 8) + i;
	if (!(regs[sp] >> 56))
		regs[sp] = SP + (regs[sp] & 0xff);
}

static void unwind(struct uw_space *space, const uint8_t *head, const uint8_t *stack,
		   size_t stack_len)
{
	static struct uw_engine *engine;
	uint64_t regs[UW_BATCH][UW_ARM64_COUNT], frames[UW_BATCH][FRAMES];
	struct uw_snapshot snapshots[UW_BATCH];
	struct uw_result results[UW_BATCH];
	uint8_t *copy = malloc(stack_len ? stack_len : 1);

	if (!copy || (!engine && uw_engine_new(UW_ENGINE_NATIVE, &engine) < 0))
		abort();
	memcpy(copy, stack, stack_len);
	for (size_t i = 0; i < UW_BATCH; i++) {
		registers(head, i, head[0] & 16, regs[i]);
		snapshots[i] = (struct uw_snapshot){
			.space = space,
			.regs = regs[i],
			.arch = head[0] & 16 ? UW_ARCH_AARCH64 : UW_ARCH_X86_64,
			.stack_full = head[0] & 1,
			.stack_len = (uint32_t)stack_len,
			.stack = copy,
		};
		results[i] = (struct uw_result){.frames = frames[i], .max_frames = FRAMES};
	}
	if (uw_unwind_batch(engine, snapshots, UW_BATCH, results) < 0)
		abort();
	for (size_t i = 0; i < UW_BATCH; i++)
		check(&results[i]);
	uw_engine_forget(engine, NULL);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input_memory memory = {.memory = {input_read}};
	const uint8_t *head = data;
	struct uw_image *image;
	struct uw_map maps[2] = {{.start = 0x401000, .end = 0x411000, .offset = 0x1000},
				 {.start = 0x500000, .end = 0x510000}};
	struct uw_space *space;

	if (size < HEAD + REGS)
		return 0;
	if (uw_image_new_empty(&image) < 0 ||
	    uw_module_new(UW_MODULE_FILE, "/fuzz", NULL, &maps[0].module) < 0)
		abort();
	image->arch = head[0] & 16 ? UW_ARCH_AARCH64 : UW_ARCH_X86_64;
	data += HEAD + REGS;
	size -= HEAD + REGS;
	section(&image->eh_frame_hdr, &data, &size, head[0] & 4 ? 0 : u16_at(head + 2), 0xf0000);
	section(&image->eh_frame, &data, &size, u16_at(head + 4), 0x100000);
	section(&image->debug_frame, &data, &size, u16_at(head + 6), 0);
	cfi_table_init(image);
	maps[0].module->image = image;
	atomic_store(&maps[0].module->unwind_state, UW_MODULE_READY);
	memory.data = data;
	memory.size = size;
	if (uw_space_new(maps, head[0] & 8 ? 2 : 1, 3, head[0] & 2 ? &memory.memory : NULL,
			 &space) < 0)
		abort();
	unwind(space, head, data, min_u64(size, UINT32_MAX));
	uw_space_unref(space);
	uw_module_unref(maps[0].module);
	return 0;
}
