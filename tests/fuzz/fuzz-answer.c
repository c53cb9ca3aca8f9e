/* fuzz-answer.c - the bytes that helper processes send back, as if a hostile file had taken them over:
 * an answer to any request (load-role.c) and a module with it (symbols/module.c), then unwound
 * with and looked into.
 *
 * Input: a byte for what was asked, 16 bytes of registers and addresses; the length of pw-files' part of the
 * answer (u32), that part, pw-parse's part. */
#include <string.h>

#include "base/bytes.h"
#include "session/loader/load-role.h"
#include "symbols/image.h"
#include "unwinder/unwinder.h"

enum { HEAD = 21, FRAMES = 64, START = 0x400000, END = 0x500000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const struct uw_module *m, uint64_t vaddr)
{
	struct uw_symbol s;

	if (uw_module_symbol(m, vaddr, &s) && (vaddr - s.start >= s.size || !*s.name))
		abort();
}

static void unwind(struct uw_module *m, const uint8_t *head)
{
	static struct uw_engine *engine;
	struct uw_map map = {.start = START, .end = END, .module = m};
	uint64_t regs[UW_X86_COUNT] = {0}, frames[FRAMES];
	static uint8_t stack[2048];
	struct uw_snapshot snapshot = {
		.regs = regs, .arch = UW_ARCH_X86_64, .stack_len = sizeof(stack), .stack = stack};
	struct uw_result result = {.frames = frames, .max_frames = FRAMES};

	if (!engine && uw_engine_new(UW_ENGINE_NATIVE, &engine) < 0)
		abort();
	for (size_t i = 0; i < sizeof(stack); i += 8) {
		uint64_t v = START + (hash_u64(i + head[4]) & 0xfffff);

		memcpy(stack + i, &v, sizeof(v));
	}
	regs[UW_X86_SP] = 0x7ff000000000;
	regs[UW_X86_BP] = regs[UW_X86_SP] + head[1];
	regs[UW_X86_IP] = START + (uint64_t)(head[2] | head[3] << 8);
	if (uw_space_new(&map, 1, 1, NULL, &snapshot.space) < 0)
		abort();
	if (uw_unwind_batch(engine, &snapshot, 1, &result) < 0 || result.n_frames > FRAMES)
		abort();
	uw_engine_forget(engine, NULL);
	uw_space_unref(snapshot.space);
}

static void use(struct uw_module *m, const uint8_t *head)
{
	const struct uw_image *image = uw_module_image(m);

	for (size_t i = 0; image && i < image->n_segments; i++) {
		(void)uw_module_vaddr(m, image->segments[i].offset);
		look(m, image->segments[i].vaddr);
		look(m, image->segments[i].vaddr + (uint64_t)(head[5] | head[6] << 8));
	}
	look(m, 0);
	look(m, (uint64_t)(head[5] | head[6] << 8));
	look(m, UINT64_MAX);
	unwind(m, head);
	(void)uw_module_bytes(m);
}

static void check(const struct load_answer *a)
{
	if (a->maps && strlen(a->maps) > a->maps_len)
		abort();
	for (size_t i = 0; i < a->n_threads; i++)
		if (!memchr(a->threads[i].comm, 0, sizeof(a->threads[i].comm)))
			abort();
	for (size_t i = 0; i < a->n_lines; i++)
		if (!a->lines[i].function ||
		    a->lines[i].address >= max_u64(a->n_spans, a->request.n_vaddrs))
			abort();
	if (!memchr(a->status.comm, 0, sizeof(a->status.comm)) ||
	    a->mapping.id.build_id.len > UW_BUILD_ID_MAX)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct load_answer a = {0};
	struct load_reply reply = {.fd = -1};
	struct uw_module *module = NULL;
	uint8_t *copy, *parsed;
	uint32_t len;
	int r;

	if (size < HEAD)
		return 0;
	a.request.kind = data[0] % (LOAD_LINES + 1);
	if (data[0] & 0x80 && uw_module_new(data[0] & 0x40 ? UW_MODULE_JIT : UW_MODULE_FILE,
					    "/usr/bin/x", NULL, &module) < 0)
		abort();
	a.request.module = module;
	a.request.n_vaddrs = data[0] & 0x20 ? LOAD_VADDRS_MAX : 2;
	a.request.spans = data[0] & 0x10;
	memcpy(&len, data + HEAD - sizeof(len), sizeof(len));
	reply.len = min_u64(len, size - HEAD);
	reply.parsed_len = size - HEAD - reply.len;
	/* Their ends are where a sanitizer sees them. */
	copy = malloc(reply.len + 1);
	parsed = malloc(reply.parsed_len + 1);
	if (!copy || !parsed)
		abort();
	memcpy(copy, data + HEAD, reply.len);
	memcpy(parsed, data + HEAD + reply.len, reply.parsed_len);
	reply.data = copy;
	reply.parsed = parsed;
	r = load_answer_unpack(&a, &reply, NULL);
	free(copy);
	free(parsed);
	if (r >= 0) {
		check(&a);
		if (module)
			use(module, data);
	}
	a.request.module = NULL;
	load_answer_deinit(&a);
	(void)uw_module_unref(module);
	return 0;
}
