/* rights-program.c - see rights-program.h.
 *
 * Calls next to each other with the same action and no test are one interval.  A jump is at most 255 instructions long, so
 * where the lower half of the tree is longer, an unconditional jump leads to the upper one. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "session/rights-program.h"

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#else
#error "which machine is this?"
#endif

enum { JUMP_MAX = 255, X32_BIT = 0x40000000, INTERVALS = 2 * RIGHTS_RULES + 2 };

/* ---- rules ---- */

void rights_rules_add_if(struct rights_rules *rules, uint32_t action, long call,
			 const struct rights_test *tests, size_t n_tests)
{
	struct rights_rule *rule;

	if (rules->n == RIGHTS_RULES || n_tests > RIGHTS_TESTS) {
		rules->bad = true;
		return;
	}
	rule = &rules->rules[rules->n];
	*rule = (struct rights_rule){
		(uint32_t)call, (uint32_t)rules->n++, action, (uint32_t)n_tests, {{0}}};
	if (n_tests)
		memcpy(rule->tests, tests, n_tests * sizeof(*tests));
}

void rights_rules_add(struct rights_rules *rules, uint32_t action, long call)
{
	rights_rules_add_if(rules, action, call, NULL, 0);
}

static int by_call(const void *left, const void *right)
{
	const struct rights_rule *a = left, *b = right;

	if (a->call != b->call)
		return a->call < b->call ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* ---- code ---- */

/* Numbers from @first up to the next interval. */
struct interval {
	uint32_t first;
	const struct rights_rule *rules; /* of one call; NULL: `action` */
	size_t n_rules;
	uint32_t action;
};

struct assembler {
	struct rights_program *program;
	struct interval intervals[INTERVALS];
	size_t n_intervals;
	uint32_t otherwise;
	bool full;
};

static struct sock_filter *put(struct assembler *a, uint16_t code, uint8_t jt, uint8_t jf,
			       uint32_t k)
{
	struct rights_program *p = a->program;

	if (p->n == RIGHTS_PROGRAM) {
		a->full = true;
		p->n = 0; /* the program is not used */
	}
	p->code[p->n] = (struct sock_filter){code, jt, jf, k};
	return &p->code[p->n++];
}

/* Continues where half of the argument is as it must be, else jumps to the end of the rule, which is set later. */
static void put_half(struct assembler *a, const struct rights_test *test, bool high)
{
	uint32_t mask = (uint32_t)(test->mask >> (high ? 32 : 0)),
		 value = (uint32_t)(test->value >> (high ? 32 : 0));
	uint32_t at = (uint32_t)(offsetof(struct seccomp_data, args) + test->argument * 8 +
				 (high ? 4 : 0));

	if (!mask)
		return; /* value is 0: see is_sound() */
	put(a, BPF_LD | BPF_W | BPF_ABS, 0, 0, at);
	if (mask != UINT32_MAX)
		put(a, BPF_ALU | BPF_AND | BPF_K, 0, 0, mask);
	put(a, BPF_JMP | BPF_JEQ | BPF_K, 0, JUMP_MAX, value);
}

static void put_rule(struct assembler *a, const struct rights_rule *rule)
{
	uint16_t first = a->program->n, end;

	for (uint32_t i = 0; i < rule->n_tests; i++) {
		put_half(a, &rule->tests[i], true);
		put_half(a, &rule->tests[i], false);
	}
	put(a, BPF_RET | BPF_K, 0, 0, rule->action);
	end = a->program->n;
	for (uint16_t i = first; i < end; i++)
		if (a->program->code[i].code == (BPF_JMP | BPF_JEQ | BPF_K))
			a->program->code[i].jf = (uint8_t)(end - i - 1);
}

static void put_interval(struct assembler *a, const struct interval *interval)
{
	bool ends = !interval->rules;

	for (size_t i = 0; i < interval->n_rules && !ends; i++) {
		put_rule(a, &interval->rules[i]);
		ends = !interval->rules[i].n_tests;
	}
	if (!ends || !interval->rules)
		put(a, BPF_RET | BPF_K, 0, 0, interval->rules ? a->otherwise : interval->action);
}

/* The number is in the accumulator, and in one of the intervals [low, high). */
static void put_tree(struct assembler *a, size_t low, size_t high)
{
	size_t mid = low + (high - low) / 2;
	uint16_t at = a->program->n, length;

	if (a->full)
		return;
	if (high - low == 1) {
		put_interval(a, &a->intervals[low]);
		return;
	}
	/* Both forms, as the length of the lower half is not known: */
	put(a, BPF_JMP | BPF_JGE | BPF_K, 0, 1, a->intervals[mid].first);
	put(a, BPF_JMP | BPF_JA, 0, 0, 0);
	put_tree(a, low, mid);
	if (a->full)
		return;
	length = (uint16_t)(a->program->n - at - 2);
	if (length + 1 <= JUMP_MAX) {
		memmove(&a->program->code[at + 1], &a->program->code[at + 2],
			length * sizeof(a->program->code[0]));
		a->program->n--;
		a->program->code[at].jt = (uint8_t)length;
		a->program->code[at].jf = 0;
	} else {
		a->program->code[at + 1].k = length;
	}
	put_tree(a, mid, high);
}

/* ---- all ---- */

static void add_interval(struct assembler *a, struct interval interval)
{
	struct interval *last = a->n_intervals ? &a->intervals[a->n_intervals - 1] : NULL;

	if (last && last->first == interval.first)
		last = --a->n_intervals ? last - 1 : NULL;
	if (last && !last->rules && !interval.rules && last->action == interval.action)
		return;
	a->intervals[a->n_intervals++] = interval;
}

static void find_intervals(struct assembler *a, const struct rights_rules *rules)
{
	add_interval(a, (struct interval){.action = a->otherwise});
	for (size_t i = 0, n; i < rules->n; i += n) {
		const struct rights_rule *rule = &rules->rules[i];

		for (n = 1; i + n < rules->n && rule[n].call == rule->call;)
			n++;
		if (rule->n_tests)
			add_interval(a, (struct interval){rule->call, rule, n, 0});
		else
			add_interval(a, (struct interval){rule->call, NULL, 0, rule->action});
		add_interval(a, (struct interval){rule->call + 1, NULL, 0, a->otherwise});
	}
}

static bool is_sound(const struct rights_rules *rules)
{
	for (size_t i = 0; i < rules->n; i++) {
		const struct rights_rule *rule = &rules->rules[i];

		if (rule->call >= X32_BIT)
			return false;
		for (uint32_t k = 0; k < rule->n_tests; k++)
			if (rule->tests[k].value & ~rule->tests[k].mask ||
			    rule->tests[k].argument > 5)
				return false;
	}
	return !rules->bad;
}

int rights_program_make(struct rights_rules *rules, struct rights_program *ret_program)
{
	struct assembler *a;
	int r = 0;

	if (!is_sound(rules))
		return fail(-E2BIG);
	a = calloc(1, sizeof(*a));
	if (!a)
		return fail(-ENOMEM);
	a->program = ret_program;
	a->otherwise = rules->otherwise;
	ret_program->n = 0;
	qsort(rules->rules, rules->n, sizeof(rules->rules[0]), by_call);
	find_intervals(a, rules);
	put(a, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
	put(a, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, MACHINE);
	put(a, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
	put(a, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
	/* x32, but not -1: a tracer skips a call by that number. */
	put(a, BPF_JMP | BPF_JGE | BPF_K, 0, 2, X32_BIT);
	put(a, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, UINT32_MAX);
	put(a, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
#endif
	put_tree(a, 0, a->n_intervals);
	if (a->full)
		r = fail(-E2BIG);
	free(a);
	return r;
}
