/* hook.c - libperfwind-hook.so: a program that loads it opts in to profiling.  Thread: any;
 * hook_handler: signal.
 *
 * It installs a handler for HOOK_SIGNAL, and stands in for the functions that set one, so that a
 * program with its own use for that signal keeps it: the program's handler is called for every
 * signal that is not the daemon's request, and the program sees only its own.  SIGSYS alike
 * (guard.h).  All other signals go to the libc untouched.
 *
 *   kernel: HOOK_SIGNAL ─► hook_handler ─┬─ SI_QUEUE and HOOK_VALUE ─► hook_answer
 *                                        └─ else ─► what the program set (action_take)
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <ucontext.h>

#include "libc-hook/answer.h"
#include "libc-hook/guard.h"
#include "libc-hook/hook-proto.h"
#include "libc-hook/interpose.h"
#include "libc-hook/life.h"
#include "libc-hook/stack.h"
#include "libc-hook/syscalls.h"

static struct hook_config config;

/* Blocks the signals that the kernel would block in the program's handler. */
__attribute__((noinline)) static action_handler *prepare_program(int signal, const void *context)
{
	const ucontext_t *uc = context;
	struct action_taken program = action_take(signal);
	uint64_t mask;

	if (program.handler) {
		memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
		mask |= program.mask;
		(void)sys4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
	}
	return program.handler;
}

/* By a jump: the program's handler has the stack that it has without us. */
__attribute__((noinline)) static void call_program(int signal, siginfo_t *info, void *context)
{
	action_handler *handler = prepare_program(signal, context);

	if (handler)
		handler(signal, info, context);
}

static bool has_room(const void *context)
{
	const ucontext_t *uc = context;

	return stack_takes_answer((uintptr_t)__builtin_frame_address(0),
				  (uintptr_t)uc->uc_stack.ss_sp, uc->uc_stack.ss_size);
}

static void hook_handler(int signal, siginfo_t *info, void *context)
{
	if (info->si_code != SI_QUEUE || info->si_value.sival_int != HOOK_VALUE)
		call_program(signal, info, context);
	else if (guard_holds(context) && has_room(context))
		hook_answer(&config);
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

/* The guard comes first: a filter that was there before the program may trap all that follows. */
static void begin(action_function *real, bool trusted)
{
	bool alive;

	choose_socket(trusted);
	config.nondumpable = trusted && is_set(HOOK_ENV_NONDUMPABLE);
	action_init(real);
	if (action_begin(SIGSYS, guard_handler) < 0)
		return;
	alive = life_begin(hook_answer_leftovers) == 0;
	if (alive)
		action_mask_earlier();
	if (!alive || action_begin(HOOK_SIGNAL, hook_handler) < 0) {
		life_end();
		action_end(SIGSYS);
	}
}

__attribute__((constructor)) static void hook_start(void)
{
	int was = errno;
	action_function *real = interpose_begin();

	/* A program with more privileges than its starter ignores the starter's environment. */
	if (real && !is_set(HOOK_ENV_DENY))
		begin(real, !getauxval(AT_SECURE));
	errno = was;
}
