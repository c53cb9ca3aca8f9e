/* rights-program.h - seccomp programs out of lists of system calls.  Thread: main, before others are started.
 *
 *   of another machine ─► killed   number ─► a tree of comparisons ─► the call's rules, in their order ─► otherwise
 *
 * A library took 2 ms and more of each start for the five programs that a recording needs; this takes a tenth of one. */
#pragma once

#include <linux/filter.h>

#include "base/util.h"

enum { RIGHTS_RULES = 512, RIGHTS_TESTS = 3, RIGHTS_PROGRAM = 2048 };

/* Of one argument: (argument & mask) == value, of all 64 bits. */
struct rights_test {
	uint32_t argument;
	uint64_t mask, value;
};

struct rights_rules {
	struct rights_rule {
		uint32_t call, order, action; /* SECCOMP_RET_* */
		uint32_t n_tests;
		struct rights_test tests[RIGHTS_TESTS]; /* all must hold */
	} rules[RIGHTS_RULES];
	size_t n;
	uint32_t otherwise; /* for calls without a rule that holds */
	bool bad;	    /* there were too many */
};

void rights_rules_add(struct rights_rules *rules, uint32_t action, long call);
void rights_rules_add_if(struct rights_rules *rules, uint32_t action, long call,
			 const struct rights_test *tests, size_t n_tests);

struct rights_program {
	struct sock_filter code[RIGHTS_PROGRAM];
	uint16_t n;
};
/* Sorts @rules.  -E2BIG: there are too many. */
int rights_program_make(struct rights_rules *rules, struct rights_program *ret_program);
