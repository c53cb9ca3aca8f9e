/* hook.c - libperfwind-hook.so: by being loaded into a program it gives that program's consent to
 * be profiled.  Thread: any; hook_handler: signal.
 *
 * It installs a handler for HOOK_SIGNAL and stands in for sigaction() and signal() for that one
 * signal, so that a program with its own use for it keeps it: the program's handler is called for
 * every signal that is not the daemon's request, and the program sees only its own.  All other
 * signals go to the libc untouched.
 *
 *   kernel: HOOK_SIGNAL ─► hook_handler ─┬─ SI_QUEUE and HOOK_VALUE ─► hook_answer
 *                                        └─ else ─► what the program set (slots[current])
 *
 * The program's action is published by an index, so that the handler, which may interrupt
 * sigaction() itself, always sees a whole one.  The state lies in a page that fork() wipes: what a
 * child of fork() finds there is 0, what a child of vfork() finds there is its parent's, which it
 * must leave alone. */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libc-hook/answer.h"
#include "libc-hook/hook_proto.h"
#include "libc-hook/syscalls.h"

#define EXPORTED __attribute__((visibility("default")))

enum { SLOTS = 8 };

typedef int sigaction_function(int, const struct sigaction *, struct sigaction *);

static struct hook_config config;
static sigaction_function *real_sigaction;
static bool installed;

/* What the program set.  A writer fills the next slot and then publishes it. */
static struct sigaction slots[SLOTS];
static atomic_uint current, reserved;

/* In a page of its own (MADV_WIPEONFORK). */
static struct in_flight {
	atomic_int pid;	 /* whose page this is */
	atomic_int busy; /* an answer is under way in another thread */
} * in_flight;

static void call_program(struct sigaction *program, int signal, siginfo_t *info, void *context)
{
	const struct sigaction action = *program;

	if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)
		return;
	if ((unsigned)action.sa_flags & SA_RESETHAND)
		program->sa_handler = SIG_DFL;
	if ((unsigned)action.sa_flags & SA_SIGINFO)
		action.sa_sigaction(signal, info, context);
	else
		action.sa_handler(signal);
}

static void hook_handler(int signal, siginfo_t *info, void *context)
{
	int idle = 0;

	if (info->si_code != SI_QUEUE || info->si_value.sival_int != HOOK_VALUE) {
		call_program(&slots[atomic_load(&current) % SLOTS], signal, info, context);
		return;
	}
	if (!in_flight || !atomic_compare_exchange_strong(&in_flight->busy, &idle, 1))
		return;
	hook_answer(&config);
	atomic_store(&in_flight->busy, 0);
}

/* Is this a child of vfork(), that shares our memory but not our signal actions? */
static bool borrowed_memory(void)
{
	int self = (int)sys1(SYS_getpid, 0), owner = 0;

	if (!in_flight)
		return false;
	/* 0: our own page, wiped by fork(). */
	return !atomic_compare_exchange_strong(&in_flight->pid, &owner, self) && owner != self;
}

/* Ours, with the mask and restart habit that the program chose. */
static int install(const struct sigaction *program)
{
	struct sigaction ours = *program;
	bool handles = program->sa_handler != SIG_DFL && program->sa_handler != SIG_IGN;

	ours.sa_sigaction = hook_handler;
	ours.sa_flags &= handles ? SA_NODEFER | SA_RESTART : 0;
	ours.sa_flags |= SA_SIGINFO | SA_ONSTACK | (handles ? 0 : SA_RESTART);
	if (!handles)
		(void)sigemptyset(&ours.sa_mask);
	return real_sigaction(HOOK_SIGNAL, &ours, NULL);
}

static sigaction_function *find_real(void)
{
	if (!real_sigaction)
		*(void **)&real_sigaction = dlsym(RTLD_NEXT, "sigaction");
	return real_sigaction;
}

EXPORTED int sigaction(int signal, const struct sigaction *restrict action,
		       struct sigaction *restrict old)
{
	struct sigaction before, wanted;
	unsigned next;

	if (!find_real()) {
		errno = ENOSYS;
		return -1;
	}
	if (signal != HOOK_SIGNAL || !installed || borrowed_memory())
		return real_sigaction(signal, action, old);
	before = slots[atomic_load(&current) % SLOTS];
	if (action) {
		wanted = *action; /* @old may be the same memory */
		next = atomic_fetch_add(&reserved, 1) + 1;
		slots[next % SLOTS] = wanted;
		if (install(&wanted) < 0)
			return -1;
		atomic_store(&current, next);
	}
	if (old)
		*old = before;
	return 0;
}

/* BSD semantics, as the C libraries have it. */
EXPORTED sighandler_t signal(int signal, sighandler_t handler)
{
	struct sigaction action = {.sa_flags = SA_RESTART}, old;

	action.sa_handler = handler;
	(void)sigemptyset(&action.sa_mask);
	if (signal != HOOK_SIGNAL || !installed) {
		static sighandler_t (*real)(int, sighandler_t);

		if (!real)
			*(void **)&real = dlsym(RTLD_NEXT, "signal");
		if (real)
			return real(signal, handler);
	}
	return sigaction(signal, &action, &old) < 0 ? SIG_ERR : old.sa_handler;
}

static bool is_set(const char *name)
{
	const char *value = getenv(name);

	return value && !strcmp(value, "1");
}

static void choose_socket(bool trusted)
{
	const char *path = trusted ? getenv(HOOK_ENV_SOCKET) : NULL;
	size_t len;

	if (!path || !*path)
		path = HOOK_SOCKET;
	len = strlen(path);
	if (len >= sizeof(config.address.sun_path))
		return;
	config.address.sun_family = AF_UNIX;
	memcpy(config.address.sun_path, path, len);
	config.address_len = (unsigned)(offsetof(struct sockaddr_un, sun_path) + len + 1);
	if (*path == '@') {
		config.address.sun_path[0] = 0;
		config.address_len--;
	}
}

__attribute__((constructor)) static void hook_start(void)
{
	/* A program that runs with more rights than who started it takes no word from him. */
	bool trusted = !getauxval(AT_SECURE);
	size_t page = (size_t)getauxval(AT_PAGESZ);
	struct sigaction program;
	void *memory;

	if (is_set(HOOK_ENV_DENY) || !find_real())
		return;
	choose_socket(trusted);
	config.nondumpable = trusted && is_set(HOOK_ENV_NONDUMPABLE);
	memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return;
	if (madvise(memory, page, MADV_WIPEONFORK) < 0 ||
	    real_sigaction(HOOK_SIGNAL, NULL, &program) < 0) {
		(void)munmap(memory, page);
		return;
	}
	in_flight = memory;
	atomic_store(&in_flight->pid, (int)sys1(SYS_getpid, 0));
	slots[0] = program;
	installed = install(&program) == 0;
}
