/* judge.h - answers against the truth: stacks of tests/programs/shadow.c, which know their call
 * sites. Thread: any, one. */
#pragma once

#include "tests/differential/agree.h"

/* Prints how many stacks @answers has right and the first that it has wrong.  Returns the wrong
 * ones. */
uint64_t judge_print(struct samples *samples, const struct answers *answers);
