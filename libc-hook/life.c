/* life.c - see life.h.
 *
 * The state lies in a page that fork() wipes.  A child of fork() finds 0 there, and the libc's
 * child handler takes the page at once.  A child of vfork() finds its parent's pid.  Two others
 * find 0: a child of a bare clone(), which takes the page, and a child that this child makes by
 * vfork() before, which must not. kcmp() distinguishes the two.  Where it is refused (for a parent
 * that is not dumpable without root's privileges, in containers), the libc's note of the thread's
 * id does: it is a thread of the parent for the first, of the parent's parent for the second.
 *
 *   fork():  note ─► answers? ─ yes: take the note back, wait, again     child: finds 0
 *   answer:  count ─► notes of others? ─ yes: wait                       no answer during a fork
 */
#include <linux/kcmp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>

#include "libc-hook/life.h"
#include "libc-hook/syscalls.h"

enum { FORKS = 16 };

static struct life {
	atomic_int pid;		 /* the owner of this page */
	atomic_int answers;	 /* under way in threads of it */
	atomic_int forks[FORKS]; /* tids that are in fork() */
} * life;

static void (*new_life)(bool undo);
static atomic_int forked_by_libc; /* the pid of the child */

/* Functions that a libc may lack: a weak symbol that is missing is NULL. */
#pragma weak pthread_getcpuclockid
#pragma weak __register_atfork
#pragma weak pthread_atfork
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);

/* The thread's id as the libc has noted it: from a thread's clock, which is computed and not asked
 * for.  (~tid << 3 | kind: the kernel's form, include/linux/posix-timers.h.)  0: unknown. */
static int noted_tid(void)
{
	clockid_t clock;

	if (!pthread_getcpuclockid || pthread_getcpuclockid(pthread_self(), &clock))
		return 0;
	return ~(clock >> 3);
}

static bool shares_with_parent(int self)
{
	int noted = noted_tid();
	long parent, r;

	if (noted == (int)sys0(SYS_gettid))
		return false;
	parent = sys0(SYS_getppid);
	r = sys5(SYS_kcmp, self, parent, KCMP_VM, 0, 0);
	if (r >= 0)
		return r == 0;
	return noted && sys3(SYS_tgkill, parent, noted, 0) < 0;
}

bool life_is_borrowed(void)
{
	int self, owner;

	if (!life)
		return false;
	self = (int)sys0(SYS_getpid);
	owner = atomic_load(&life->pid);
	if (owner)
		return owner != self;
	if (shares_with_parent(self))
		return true;
	if (atomic_compare_exchange_strong(&life->pid, &owner, self))
		new_life(atomic_load(&forked_by_libc) != self);
	return false;
}

/* ---- fork() ---- */

static void note_fork(int tid)
{
	for (int i = 0; i < FORKS; i++) {
		int none = 0;

		if (atomic_compare_exchange_strong(&life->forks[i], &none, tid))
			return;
	}
}

static void forget_fork(int tid)
{
	for (int i = 0; i < FORKS; i++) {
		int noted = tid;

		if (atomic_compare_exchange_strong(&life->forks[i], &noted, 0))
			return;
	}
}

static bool others_fork(int tid)
{
	for (int i = 0; i < FORKS; i++) {
		int noted = atomic_load(&life->forks[i]);

		if (noted && noted != tid)
			return true;
	}
	return false;
}

static void before_fork(void)
{
	int tid = (int)sys0(SYS_gettid);

	for (int i = 0; life && i < LIFE_FORK_WAIT_MS; i++) {
		note_fork(tid);
		if (!atomic_load(&life->answers))
			return;
		forget_fork(tid);
		hook_pause();
	}
	if (life)
		note_fork(tid);
}

static void after_fork(void)
{
	if (life)
		forget_fork((int)sys0(SYS_gettid));
}

static void in_child(void)
{
	atomic_store(&forked_by_libc, (int)sys0(SYS_getpid));
	(void)life_is_borrowed();
}

enum life_answer life_answer(void)
{
	int tid = (int)sys0(SYS_gettid);

	if (life_is_borrowed())
		return LIFE_BORROWED;
	(void)atomic_fetch_add(&life->answers, 1);
	/* A fork() of this thread has not begun or is over, as we run. */
	for (int i = 0; others_fork(tid); i++) {
		if (i == LIFE_ANSWER_WAIT_MS) {
			life_answered();
			return LIFE_FORKING;
		}
		hook_pause();
	}
	return LIFE_OWN;
}

void life_answered(void)
{
	(void)atomic_fetch_sub(&life->answers, 1);
}

/* ---- life ---- */

int life_begin(void (*leftovers)(bool undo))
{
	size_t page = (size_t)getauxval(AT_PAGESZ);
	long memory = sys6(SYS_mmap, NULL, page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory < 0)
		return -1;
	if (sys3(SYS_madvise, memory, page, MADV_WIPEONFORK) < 0) {
		(void)sys2(SYS_munmap, memory, page);
		return -1;
	}
	life = (struct life *)memory;
	new_life = leftovers;
	atomic_store(&life->pid, (int)sys0(SYS_getpid));
	if (__register_atfork)
		(void)__register_atfork(before_fork, after_fork, in_child, NULL);
	else if (pthread_atfork)
		(void)pthread_atfork(before_fork, after_fork, in_child);
	return 0;
}

void life_end(void)
{
	life = NULL;
}
