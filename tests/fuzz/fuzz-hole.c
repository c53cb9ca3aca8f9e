/* fuzz-hole.c - stacks of two threads in two processes, any frames, any code, in any order, through
 * the native engine, which completes some by earlier ones (native-hole.c) and takes frames from
 * earlier ones (native.c).  An engine that knows no thread unwinds each stack, too: what it has
 * whole has to come out the same, and what was completed must have been a stack with a copy that ends at
 * a page that is not there, in the middle of a function that the first frame found calls.
 *
 *   [flags u8][functions: 8 * u16][calls: n u8, n * (at u8, to u8)][steps ...]
 *
 *   flags      1 code by the process's memory, 2 by the module's file, 4 no search table
 *   function   0x40 bytes each from 0x1000 on.  0x8000 CFA = rbp + 16, rbp saved; 0x4000 the root;
 *              else CFA = rsp + 8 * (1 + (u16 & 0xfff))
 *   call       at: the call ends at byte 2 * at of the code; to: the function, 8: a byte behind it
 *   step       odd: [u8][sp u16][bp u16][pc u8][len u8]  a sample: 2 thread, 4 process, 8 the copy was
 *              full; len 0: the whole stack, else up to the len-th page's end; 0x80: but for a word
 *              even: [u8][word u16][value u16]  of the stack: 0; 0x8000 an address of the stack;
 *              else one of the code */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unwinder/cfi.h"
#include "symbols/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	FUNCTIONS = 8,
	FUNCTION = 0x40,
	TEXT = 0x1000,
	CODE = FUNCTIONS * FUNCTION,
	BIAS = 0x400000,
	EH_FRAME = 0x100000,
	HDR = 0xf0000,
	STACK = 0x7fff0000,
	WORDS = 8192,
	PAGE = 4096,
	FRAMES = 48,
	BATCH = 4,
	SAMPLES_MAX = 64,
};

struct world {
	struct uw_memory memory;
	uint8_t code[CODE];
	struct uw_segment segment;
	struct uw_module *module;
	struct uw_space *spaces[2];
	struct uw_engine *engine, *plain;
	uint64_t stack[WORDS];
	/* What waits for its batch. */
	struct uw_snapshot snapshots[BATCH];
	uint64_t regs[BATCH][UW_X86_COUNT];
	uint8_t *copies[BATCH];
	size_t n;
};

struct input {
	const uint8_t *data;
	size_t size;
};

static unsigned take_u8(struct input *in)
{
	if (!in->size)
		return 0;
	in->size--;
	return *in->data++;
}

static unsigned take_u16(struct input *in)
{
	unsigned low = take_u8(in);

	return low | take_u8(in) << 8;
}

static ssize_t code_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	const struct world *w = container_of(memory, struct world, memory);
	uint64_t at = address - (BIAS + TEXT);

	if (at >= CODE)
		return -1;
	len = min_u64(len, CODE - at);
	memcpy(to, w->code + at, len);
	return (ssize_t)len;
}

/* ---- the module ---- */

struct bytes {
	uint8_t b[1024];
	size_t n;
};

static void put(struct bytes *to, const void *data, size_t len)
{
	if (len > sizeof(to->b) - to->n)
		abort();
	memcpy(to->b + to->n, data, len);
	to->n += len;
}

static void put32(struct bytes *to, uint64_t value)
{
	put(to, &(uint32_t){(uint32_t)value}, 4);
}

static void put_fde(struct bytes *eh, size_t function, unsigned kind)
{
	static const uint8_t framed[] = {CFA_DEF_CFA, DWARF_X86_RBP, 16, CFA_OFFSET | DWARF_X86_RBP,
					 2};
	static const uint8_t root[] = {CFA_UNDEFINED, DWARF_X86_RIP};
	unsigned cfa = 8 * (1 + (kind & 0xfff));
	uint8_t program[12] = {0}, plain[] = {CFA_DEF_CFA_OFFSET, 0x80 | (cfa & 0x7f),
					      0x80 | (cfa >> 7 & 0x7f), (uint8_t)(cfa >> 14)};

	if (kind & 0x8000)
		memcpy(program, framed, sizeof(framed));
	else if (kind & 0x4000)
		memcpy(program, root, sizeof(root));
	else
		memcpy(program, plain, sizeof(plain));
	put32(eh, 13 + sizeof(program));
	put32(eh, eh->n);
	put32(eh, TEXT + function * FUNCTION - (EH_FRAME + eh->n));
	put32(eh, FUNCTION);
	put(eh, "", 1);
	put(eh, program, sizeof(program));
}

static void section_set(struct uw_section *section, const struct bytes *bytes, uint64_t vaddr)
{
	section->data = malloc(bytes->n);
	if (!section->data)
		abort();
	memcpy(section->data, bytes->b, bytes->n);
	section->size = bytes->n;
	section->vaddr = vaddr;
}

static void module_sections(struct uw_image *image, struct input *in, bool table)
{
	/* "zR": code 1, data -8, ra 16, pcrel sdata4; CFA = rsp + 8, ra at CFA - 8 */
	static const uint8_t cie[] = {0,
				      0,
				      0,
				      0,
				      1,
				      'z',
				      'R',
				      0,
				      1,
				      0x78,
				      DWARF_X86_RIP,
				      1,
				      PE_PCREL | PE_SDATA4,
				      CFA_DEF_CFA,
				      DWARF_X86_RSP,
				      8,
				      CFA_OFFSET | DWARF_X86_RIP,
				      1};
	static const uint8_t head[] = {1, PE_PCREL | PE_SDATA4, PE_UDATA4, PE_DATAREL | PE_SDATA4};
	struct bytes eh = {.n = 0}, hdr = {.n = 0};

	put32(&eh, sizeof(cie));
	put(&eh, cie, sizeof(cie));
	put(&hdr, head, sizeof(head));
	put32(&hdr, EH_FRAME - (HDR + 4));
	put32(&hdr, FUNCTIONS);
	for (size_t i = 0; i < FUNCTIONS; i++) {
		put32(&hdr, TEXT + i * FUNCTION - HDR);
		put32(&hdr, EH_FRAME + eh.n - HDR);
		put_fde(&eh, i, take_u16(in));
	}
	section_set(&image->eh_frame, &eh, EH_FRAME);
	if (table)
		section_set(&image->eh_frame_hdr, &hdr, HDR);
	cfi_table_init(image);
}

static void module_calls(struct world *w, struct input *in)
{
	unsigned n = take_u8(in) & 31;

	memset(w->code, 0x90, sizeof(w->code));
	while (n--) {
		unsigned at = take_u8(in) * 2, to = take_u8(in);
		int32_t distance = (int32_t)((to & 7) * FUNCTION + (to >> 3 & 1)) - (int32_t)at;

		if (at < 5)
			continue;
		w->code[at - 5] = 0xe8;
		memcpy(w->code + at - 4, &distance, sizeof(distance));
	}
}

static void module_file(struct world *w, struct uw_image *image)
{
	image->fd = memfd_create("module", MFD_CLOEXEC);
	if (image->fd < 0 || pwrite(image->fd, w->code, CODE, TEXT) != CODE)
		abort();
	w->segment = (struct uw_segment){
		.offset = TEXT, .vaddr = TEXT, .filesz = CODE, .memsz = CODE, .exec = true};
	image->segments = &w->segment;
	image->n_segments = 1;
}

static void world_make(struct world *w, struct input *in)
{
	struct uw_map map = {.start = BIAS + TEXT, .end = BIAS + TEXT + PAGE, .offset = TEXT};
	unsigned flags = take_u8(in);
	struct uw_image *image;

	w->memory.read = code_read;
	if (uw_image_new_empty(&image) < 0 ||
	    uw_module_new(UW_MODULE_FILE, "/fuzz", NULL, &w->module) < 0)
		abort();
	image->arch = UW_ARCH_X86_64;
	module_sections(image, in, !(flags & 4));
	module_calls(w, in);
	if (flags & 2)
		module_file(w, image);
	w->module->image = image;
	atomic_store(&w->module->unwind_state, UW_MODULE_READY);
	map.module = w->module;
	for (uint32_t i = 0; i < 2; i++)
		if (uw_space_new(&map, 1, i + 1, flags & 1 ? &w->memory : NULL, &w->spaces[i]) < 0)
			abort();
	if (uw_engine_new(UW_ENGINE_NATIVE, &w->engine) < 0 ||
	    uw_engine_new(UW_ENGINE_NATIVE, &w->plain) < 0)
		abort();
}

static void world_free(struct world *w)
{
	uw_engine_free(w->engine);
	uw_engine_free(w->plain);
	for (size_t i = 0; i < 2; i++)
		uw_space_unref(w->spaces[i]);
	uw_module_unref(w->module);
	for (size_t i = 0; i < w->n; i++)
		free(w->copies[i]);
	free(w);
}

/* ---- samples ---- */

/* Does the frame @ra follow a call of the function that the frame @callee is in? */
static bool follows_call(const struct world *w, uint64_t ra, uint64_t callee)
{
	uint64_t at = uw_frame_pc(ra) - (BIAS + TEXT);
	uint64_t function = (uw_frame_lookup(callee) - (BIAS + TEXT)) / FUNCTION;
	int32_t distance;

	if (at < 5 || at > CODE || w->code[at - 5] != 0xe8)
		return false;
	memcpy(&distance, w->code + at - 4, sizeof(distance));
	return (int64_t)at + distance == (int64_t)(function * FUNCTION);
}

static void check_completed(const struct world *w, const struct uw_snapshot *s,
			    const struct uw_result *res, const struct uw_result *plain)
{
	const uint64_t found = UW_FRAME_CALLER | UW_FRAME_GUESSED;

	if (res->outcome != UW_WHOLE || plain->outcome != UW_FAILED || plain->reason != UW_MEMORY ||
	    s->stack_full || (s->regs[UW_X86_SP] + s->stack_len) % PAGE ||
	    res->n_frames <= plain->n_frames ||
	    memcmp(res->frames, plain->frames, plain->n_frames * sizeof(uint64_t)) != 0 ||
	    !follows_call(w, res->frames[plain->n_frames], res->frames[plain->n_frames - 1]))
		abort();
	for (uint32_t i = plain->n_frames; i < res->n_frames; i++)
		if ((res->frames[i] & ~(UW_FRAME_CALLER - 1)) != found ||
		    !uw_space_find(s->space, uw_frame_lookup(res->frames[i])))
			abort();
}

/* The thread's root lies behind a page that was not copied, as an engine that knows no thread cannot know. */
static bool is_behind_page(const struct uw_snapshot *s, const struct uw_result *res,
			   const struct uw_result *plain)
{
	return res->outcome == UW_CUT && res->reason == UW_OK && plain->outcome == UW_FAILED &&
	       plain->reason == UW_MEMORY && !((s->regs[UW_X86_SP] + s->stack_len) % PAGE);
}

static void check(const struct world *w, const struct uw_snapshot *s, const struct uw_result *res,
		  const struct uw_result *plain)
{
	bool too_deep = res->outcome == UW_CUT && res->reason == UW_TOO_DEEP;

	if (res->n_frames > FRAMES || res->outcome > UW_FAILED || plain->completed ||
	    (res->outcome == UW_FAILED || too_deep) != (res->reason != UW_OK) ||
	    (too_deep && res->n_frames != FRAMES))
		abort();
	if (res->completed)
		check_completed(w, s, res, plain);
	else if (((res->outcome != plain->outcome || res->reason != plain->reason) &&
		  !is_behind_page(s, res, plain)) ||
		 res->n_frames != plain->n_frames || res->stopped_at != plain->stopped_at ||
		 memcmp(res->frames, plain->frames, res->n_frames * sizeof(uint64_t)) != 0)
		abort();
}

static void flush(struct world *w)
{
	uint64_t frames[2][BATCH][FRAMES];
	struct uw_snapshot alone[BATCH];
	struct uw_result results[2][BATCH];

	memcpy(alone, w->snapshots, sizeof(alone));
	for (size_t i = 0; i < w->n; i++) {
		alone[i].thread = 0;
		for (size_t j = 0; j < 2; j++)
			results[j][i] =
				(struct uw_result){.frames = frames[j][i], .max_frames = FRAMES};
	}
	if (uw_unwind_batch(w->engine, w->snapshots, w->n, results[0]) < 0 ||
	    uw_unwind_batch(w->plain, alone, w->n, results[1]) < 0)
		abort();
	for (size_t i = 0; i < w->n; i++) {
		check(w, &w->snapshots[i], &results[0][i], &results[1][i]);
		free(w->copies[i]);
	}
	w->n = 0;
}

static void sample(struct world *w, unsigned how, struct input *in)
{
	uint64_t sp = STACK + take_u16(in) % WORDS * 8, end = STACK + sizeof(w->stack);
	uint64_t bp = STACK + take_u16(in) % WORDS * 8;
	unsigned pc = take_u8(in), len = take_u8(in);
	uint64_t *regs = w->regs[w->n];

	if (len & 0x7f)
		end = min_u64(end, (sp & ~(PAGE - 1ull)) + (len & 0x7f) * (uint64_t)PAGE);
	if (len & 0x80)
		end -= 8;
	w->copies[w->n] = malloc(end - sp + 1); /* to the byte, for the sanitizer */
	if (!w->copies[w->n])
		abort();
	memcpy(w->copies[w->n], (uint8_t *)w->stack + (sp - STACK), end - sp);
	memset(regs, 0, sizeof(w->regs[0]));
	regs[UW_X86_SP] = sp;
	regs[UW_X86_BP] = bp;
	regs[UW_X86_IP] = BIAS + TEXT + 2 * pc;
	w->snapshots[w->n] = (struct uw_snapshot){
		.space = w->spaces[how >> 2 & 1],
		.regs = regs,
		.arch = UW_ARCH_X86_64,
		.stack_full = how & 8,
		.stack_len = (uint32_t)(end - sp),
		.stack = w->copies[w->n],
		.thread = 1 + (how >> 1 & 1),
	};
	if (++w->n == BATCH)
		flush(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct world *w = calloc(1, sizeof(*w));
	unsigned n = 0;

	if (!w)
		abort();
	world_make(w, &in);
	while (in.size && n < SAMPLES_MAX) {
		unsigned how = take_u8(&in), at, value;

		if (how & 1) {
			sample(w, how, &in);
			n++;
			continue;
		}
		at = take_u16(&in) % WORDS;
		value = take_u16(&in);
		w->stack[at] = !value		? 0
			       : value & 0x8000 ? STACK + value % WORDS * 8
						: BIAS + TEXT + value % CODE;
	}
	flush(w);
	world_free(w);
	return 0;
}
