/* native-stack.h - what a unit test of the native engine has whatever the processor: a module's functions by hand, a
 * stack, its frames. */
#pragma once

#include "tests/unit/unwinder/cfi-fixture.h"

#include "unwinder/engine.h"

enum { SP = 0x7fff0000, WORDS = 512, FRAMES = 64 };
#define CALLED(pc) ((pc) | UW_FRAME_CALLER)

/* @pairs: {pc, where its FDE begins in @eh}, which become addresses in the file. */
UNUSED static struct uw_module *module_of_functions(const struct bytes *eh, uint64_t (*pairs)[2],
						    size_t n)
{
	struct bytes hdr = {.n = 0};

	for (size_t i = 0; i < n; i++)
		pairs[i][0] -= CFI_BIAS;
	put_hdr(&hdr, n, (const uint64_t(*)[2])pairs);
	return module_of(image_of(&hdr, eh, NULL));
}

/* Its text; what else is mapped has no module. */
UNUSED static struct uw_map text_of(struct uw_module *module)
{
	return (struct uw_map){.start = CFI_BIAS + TEXT_AT,
			       .end = CFI_BIAS + TEXT_END,
			       .offset = TEXT_AT,
			       .module = module};
}

/* In place of the one that there was: nothing that was learned of it holds. */
UNUSED static void space_renew(struct uw_space **space, const struct uw_map maps[2], uint32_t key,
			       struct uw_memory *memory, struct uw_snapshot *snapshot)
{
	uw_space_unref(*space);
	assert_int_equal(uw_space_new(maps, 2, key, memory, space), 0);
	snapshot->space = *space;
}

#define assert_result(f, outcome_, reason_, n)                \
	do {                                                  \
		assert_int_equal((f)->res.outcome, outcome_); \
		assert_int_equal((f)->res.reason, reason_);   \
		assert_int_equal((f)->res.n_frames, n);       \
	} while (0)
