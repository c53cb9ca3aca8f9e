/* wait-stack.c - see wait-stack.h. */
#include "session/pipeline/wait-stack.h"

#include <string.h>

#include "session/pipeline/wait-reason.h"

enum { USER_BITS = 47, PAGE_0 = 4096 }; /* addresses of user code on x86-64 */

static uint64_t word_at(const uint8_t *stack, size_t at)
{
	uint64_t word;

	memcpy(&word, stack + at, sizeof(word));
	return word;
}

static bool is_code(uint64_t address, uint64_t sp, size_t len)
{
	return address >= PAGE_0 && address < 1ull << USER_BITS && address - sp >= len;
}

uint64_t wait_stack_fp(const uint8_t *stack, size_t len, uint64_t sp)
{
	for (size_t at = 0; at + 16 <= len; at += 8) {
		uint64_t up = word_at(stack, at), to = up - sp;

		if (up % 8 || to <= at + 8 || to + 16 > len)
			continue;
		if (is_code(word_at(stack, at + 8), sp, len) &&
		    is_code(word_at(stack, to + 8), sp, len))
			return sp + at;
	}
	return 0;
}

bool wait_stack_entry(const struct load_answer *a, uint64_t *regs, struct entry *ret_entry)
{
	size_t len = a->stack_len & ~(size_t)7;

	if (UW_ARCH_HOST != UW_ARCH_X86_64 || !len || a->wait.sp % 8)
		return false;
	memset(regs, 0, UW_X86_COUNT * sizeof(*regs));
	regs[UW_X86_SP] = a->wait.sp;
	regs[UW_X86_IP] = a->wait.pc;
	regs[UW_X86_BP] = wait_stack_fp(a->stack, len, a->wait.sp);
	*ret_entry = (struct entry){
		.kind = ENTRY_SAMPLE,
		.user_state = true,
		.stack_full = len == LOAD_STACK_MAX,
		.arch = UW_ARCH_X86_64,
		.regs = regs,
		.stack = a->stack,
		.info =
			{
				.time = a->wait_until,
				.pid = a->request.pid,
				.tid = a->request.tag,
				.stack_len = (uint32_t)len,
				.cpu_mode = 2, /* PERF_RECORD_MISC_USER */
				.reason = (uint8_t)wait_reason_of_call(
					a->wait.number,
					a->wait.is_pipe ? WAIT_FILE_PIPE : WAIT_FILE_OTHER),
				.guessed = true,
			},
	};
	return true;
}
