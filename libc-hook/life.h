/* life.h - the owner of this memory, and the exclusion of fork() and answers.  Thread: any;
 * life_answer: signal.
 *
 * A child of vfork() runs in its parent's memory with descriptors and signal actions of its own; a
 * child of fork() has all of its own, and copies of descriptors that were open for an answer in
 * another thread. So a fork() waits for answers, and an answer for forks that have begun. */
#pragma once

#include <stdbool.h>

/* How long fork() waits for an answer, which itself never waits as long. */
enum { LIFE_FORK_WAIT_MS = 1000, LIFE_ANSWER_WAIT_MS = 10 };

/* In the program's first thread, before it runs.  @leftovers is called in a child of fork() when we
 * first get to know of it; @undo: the libc knew nothing of that fork (clone(), _Fork()), so no answer
 * was kept apart from it.  < 0: there is no memory. */
int life_begin(void (*leftovers)(bool undo));
void life_end(void);

/* Is this a child of vfork(), or another process that shares its creator's memory? */
bool life_is_borrowed(void);

enum life_answer {
	LIFE_OWN,      /* life_answered() must follow */
	LIFE_BORROWED, /* may answer, but is to change nothing that the memory's owner has */
	LIFE_FORKING   /* another thread forks all the time */
};
enum life_answer life_answer(void);
void life_answered(void);
