/* import-stacks.h - recordings with stacks that lie in the test itself. */
#pragma once

#include "tests/unit/import/import-fixture.h"
#include "unwinder/unwinder.h"

#define STACK_TYPE (FIXTURE_TYPE | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)

enum { REG_SP = 7, REG_IP = 8, STACK_WORDS = 32, MANY = 1000 }; /* x86-64; groups have 128 */

int unwind_leaf(int x);
int unwind_root(int x);

__attribute__((noinline)) int unwind_leaf(int x)
{
	return x + 1;
}

__attribute__((noinline)) int unwind_root(int x)
{
	return unwind_leaf(x) * 3;
}

/* Set by tests of recordings with less (--user-regs). */
static uint64_t recorded_regs;

static inline uint64_t regs_mask(void)
{
	return recorded_regs ? recorded_regs : uw_arch_regs_mask(UW_ARCH_X86_64);
}

static inline void put_head(struct buffer *b)
{
	struct perf_event_attr attr = fixture_attr(PERF_COUNT_SW_CPU_CLOCK);
	uint8_t body[sizeof(attr) + 8];
	const uint64_t id = ID_A;

	attr.sample_type = STACK_TYPE;
	attr.sample_regs_user = regs_mask();
	attr.sample_stack_user = STACK_WORDS * 8;
	buffer_append(b, "PERFILE2", 8);
	put64(b, 16);
	memcpy(body, &attr, sizeof(attr));
	memcpy(body + sizeof(attr), &id, 8);
	put_record(b, 64, 0, body, sizeof(body));
	put_feature(b, 6, "x86_64"); /* HEADER_ARCH */
}

/* In unwind_leaf, with its caller as far behind as its return address: no frame above. */
static inline void put_stack_sample(struct buffer *b, uint64_t time, uint32_t pid)
{
	const uint64_t leaf = (uint64_t)(uintptr_t)unwind_leaf, sp = 0x7fff00000000;
	uint64_t mask = regs_mask();
	struct buffer body = {0};

	put64(&body, ID_A);
	put64(&body, leaf);
	put64(&body, (uint64_t)pid << 32 | pid);
	put64(&body, time);
	put64(&body, 0);
	put64(&body, 10101);
	put64(&body, PERF_SAMPLE_REGS_ABI_64);
	for (unsigned bit = 0; bit < 64; bit++)
		if (mask >> bit & 1)
			put64(&body, bit == REG_SP ? sp : bit == REG_IP ? leaf : 0);
	put64(&body, STACK_WORDS * 8);
	for (size_t i = 0; i < STACK_WORDS; i++)
		put64(&body, i == 0 ? (uint64_t)(uintptr_t)unwind_root + 9 : 0);
	put64(&body, STACK_WORDS * 8);
	put_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, body.data, body.len);
	buffer_deinit(&body);
}

static inline void put_many(struct buffer *b, size_t n)
{
	put_head(b);
	for (uint32_t pid = 7; pid < 10; pid++)
		put_own_mapping(b, pid, 0);
	for (uint64_t i = 1; i <= n; i++) {
		put_stack_sample(b, i * 1000000, 7 + (uint32_t)i % 3);
		if (i % 100 == 0)
			put_round(b);
	}
}
