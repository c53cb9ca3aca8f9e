/* test-rights-program.c - programs of rules, walked as the kernel does, against the rules themselves. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <string.h>

#include "session/rights-program.h"
#include "tests/unit/cmocka.h"

#if defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#else
#define MACHINE AUDIT_ARCH_X86_64
#endif

static uint32_t walk(const struct rights_program *p, const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < p->n; pc++) {
		const struct sock_filter *i = &p->code[pc];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			assert_true(i->k % 4 == 0 && i->k <= sizeof(*data) - 4);
			memcpy(&a, (const char *)data + i->k, 4);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= i->k ? i->jt : i->jf;
			break;
		default:
			fail_msg("instruction %zu is %x", pc, i->code);
		}
	}
	fail_msg("past the end");
	return 0;
}

/* By the rules in their order of arrival. */
static uint32_t wanted(const struct rights_rules *rules, const struct seccomp_data *data)
{
	for (size_t i = 0; i < rules->n; i++) {
		const struct rights_rule *rule = &rules->rules[i];
		bool holds = rule->call == (uint32_t)data->nr;

		for (uint32_t k = 0; k < rule->n_tests; k++)
			holds &= (data->args[rule->tests[k].argument] & rule->tests[k].mask) ==
				 rule->tests[k].value;
		if (holds)
			return rule->action;
	}
	return rules->otherwise;
}

static uint64_t seed = 1;

static uint64_t number(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % below;
}

/* Few values, so that tests hold as often as not. */
static uint64_t value(void)
{
	static const uint64_t values[] = {0,	      1,	 2, 3, 1ull << 32, 1ull << 32 | 1,
					  UINT32_MAX, UINT64_MAX};

	return values[number(8)];
}

static void make_rules(struct rights_rules *rules, size_t n)
{
	static const uint64_t masks[] = {UINT64_MAX, UINT32_MAX, 1, 3, 1ull << 32, ~1ull};

	*rules = (struct rights_rules){.otherwise = SECCOMP_RET_ERRNO | EPERM};
	for (size_t i = 0; i < n; i++) {
		struct rights_test tests[RIGHTS_TESTS];
		size_t n_tests = number(RIGHTS_TESTS + 1);

		for (size_t k = 0; k < n_tests; k++) {
			uint64_t mask = masks[number(6)];

			tests[k] = (struct rights_test){(uint32_t)number(6), mask, value() & mask};
		}
		rights_rules_add_if(rules, number(2) ? SECCOMP_RET_ALLOW : SECCOMP_RET_TRAP,
				    (long)number(400), tests, n_tests);
	}
}

static void compare(const struct rights_rules *before, const struct rights_program *p)
{
	for (int call = 0; call < 420; call++) {
		for (int i = 0; i < 8; i++) {
			struct seccomp_data data = {.nr = call, .arch = MACHINE};

			for (int k = 0; k < 6; k++)
				data.args[k] = value();
			assert_int_equal(walk(p, &data), wanted(before, &data));
		}
	}
}

static void test_random(void **state)
{
	static struct rights_rules rules, before;
	static struct rights_program p;

	(void)state;
	for (size_t round = 0; round < 60; round++) {
		make_rules(&rules, round < 30 ? round : 4 * round);
		before = rules;
		if (rights_program_make(&rules, &p) == 0)
			compare(&before, &p);
		else
			assert_true(before.n > 100); /* too long */
	}
}

/* Without tests up to the limit of rules: long jumps. */
static void test_long(void **state)
{
	static struct rights_rules rules, before;
	static struct rights_program p;

	(void)state;
	rules = (struct rights_rules){.otherwise = SECCOMP_RET_TRAP};
	for (long call = 0; call < RIGHTS_RULES; call++)
		rights_rules_add(&rules, call % 2 ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | ENOSYS,
				 call);
	before = rules;
	assert_int_equal(rights_program_make(&rules, &p), 0);
	assert_true(p.n > 1000);
	compare(&before, &p);
	rights_rules_add(&rules, SECCOMP_RET_ALLOW, 1);
	assert_int_equal(rights_program_make(&rules, &p), -E2BIG);
}

static void test_empty(void **state)
{
	struct rights_rules rules = {.otherwise = SECCOMP_RET_TRAP};
	struct rights_program p;
	struct seccomp_data data = {.nr = 1, .arch = MACHINE};

	(void)state;
	assert_int_equal(rights_program_make(&rules, &p), 0);
	assert_int_equal(walk(&p, &data), SECCOMP_RET_TRAP);
	data.nr = -1;
	assert_int_equal(walk(&p, &data), SECCOMP_RET_TRAP);
	data.arch = AUDIT_ARCH_I386;
	assert_int_equal(walk(&p, &data), SECCOMP_RET_KILL_PROCESS);
	/* a value outside of its mask, a number that no call has */
	rights_rules_add_if(&rules, SECCOMP_RET_ALLOW, 1, &(struct rights_test){0, 1, 2}, 1);
	assert_int_equal(rights_program_make(&rules, &p), -E2BIG);
	rules = (struct rights_rules){.otherwise = SECCOMP_RET_TRAP};
	rights_rules_add(&rules, SECCOMP_RET_ALLOW, -1);
	assert_int_equal(rights_program_make(&rules, &p), -E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
