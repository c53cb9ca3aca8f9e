/* hook-stack.c - programs that a hook is loaded into, with an alternate stack for signals of as many
 * bytes as the number is, and a handler that runs on it.  Where this machine's signal frame does
 * not fit, no handler runs.  What lies below the stack must stay as it is. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include "hook-program.h"
#include "../../libc-hook/stack.h"

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

/* What the handlers here take of their stack, which they leave as good as full. */
enum { BELOW = 65536, LARGE = 65536, MARK = 0x5a, HANDLER = 768 };

/* By system calls: asm-generic/signal.h */
struct raw_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

static char *stack_top;
static volatile size_t frame_size;
static volatile sig_atomic_t seen_blocked;

static char *new_memory(void)
{
	char *memory = malloc(BELOW + LARGE);

	check(memory != NULL, "no memory");
	memset(memory, MARK, BELOW + LARGE);
	return memory;
}

static void check_memory(const char *memory)
{
	for (size_t i = 0; i < BELOW; i++)
		check(memory[i] == MARK, "the stack was too small");
}

static void put_stack(char *memory, size_t size, unsigned flags, bool raw)
{
	stack_t stack = {.ss_sp = memory + BELOW, .ss_size = size, .ss_flags = (int)flags};

	check((raw ? (int)syscall(SYS_sigaltstack, &stack, NULL) : sigaltstack(&stack, NULL)) == 0,
	      "no stack");
	stack_top = memory + BELOW + size;
}

static void put_handler(int signal, void (*handler)(int), int flags, bool raw)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | flags};
	struct raw_action as_is;

	if (!raw) {
		check(sigaction(signal, &action, NULL) == 0, "no handler");
		return;
	}
	/* for the restorer */
	check(sigaction(signal, &(struct sigaction){.sa_handler = handler}, NULL) == 0, "set");
	check(syscall(SYS_rt_sigaction, signal, NULL, &as_is, 8) == 0, "read");
	as_is.flags |= SA_ONSTACK;
	check(syscall(SYS_rt_sigaction, signal, &as_is, NULL, 8) == 0, "no handler");
}

static void measure(int signal)
{
	(void)signal;
	frame_size = (size_t)(stack_top - (char *)__builtin_frame_address(0));
}

/* This machine's frame.  The hook sees nothing of this. */
static void measure_frame(void)
{
	char *memory = new_memory();

	put_stack(memory, LARGE, 0, true);
	put_handler(SIGUSR1, measure, 0, true);
	raise(SIGUSR1);
	signal(SIGUSR1, SIG_DFL);
	check(syscall(SYS_sigaltstack, &(stack_t){.ss_flags = SS_DISABLE}, NULL) == 0, "disable");
	free(memory);
}

/* ---- a handler that runs until the end is requested ---- */

static void ready(void)
{
	char line[32];
	int n = snprintf(line, sizeof(line), "thread %d\nready\n", (int)syscall(SYS_gettid));

	check(write(1, line, (size_t)n) == n, "nobody listens");
}

static void wait_for_end(void)
{
	char c;

	while (read(0, &c, 1) < 0 && errno == EINTR)
		;
}

static char line_there[32];
static size_t line_length;

/* No more of the stack than it must. */
static void stay(int signal)
{
	(void)signal;
	own_calls++;
	(void)!write(1, line_there, line_length);
	wait_for_end();
}

static void run_handler(size_t size)
{
	if (size < frame_size + HANDLER) {
		ready();
		wait_for_end();
		return;
	}
	line_length = (size_t)snprintf(line_there, sizeof(line_there), "thread %d\nready\n",
				       (int)syscall(SYS_gettid));
	raise(SIGUSR2);
	check(own_calls == 1, "its own handler was not called");
}

/* ---- modes ---- */

static void idle(size_t size, bool raw)
{
	char *memory = new_memory();

	put_stack(memory, size, 0, raw);
	ready();
	wait_for_end();
	check_memory(memory);
}

static void mode_idle(int number)
{
	idle((size_t)number, false);
}

static void mode_raw_idle(int number)
{
	idle((size_t)number, true);
}

static void running(size_t size, unsigned flags, bool raw_stack, bool raw_handler)
{
	char *memory = new_memory();

	put_stack(memory, size, flags, raw_stack);
	put_handler(SIGUSR2, stay, 0, raw_handler);
	run_handler(size);
	check_memory(memory);
}

static void mode_running(int number)
{
	running((size_t)number, 0, false, false);
}

/* The kernel takes it for none while it is in use, and pushes frames without a look. */
static void mode_autodisarm(int number)
{
	running((size_t)number, SS_AUTODISARM, false, false);
}

static void mode_raw_stack(int number)
{
	running((size_t)number, 0, true, false);
}

static void mode_raw_handler(int number)
{
	running((size_t)number, 0, false, true);
}

/* A large one was seen before. */
static void mode_smaller(int number)
{
	char *memory = new_memory();

	put_stack(memory, LARGE, 0, false);
	put_stack(memory, (size_t)number, 0, false);
	ready();
	wait_for_end();
	check_memory(memory);
}

static int thread_number;

static void *thread_idle(void *arg)
{
	mode_idle(thread_number);
	return arg;
}

static void *thread_running(void *arg)
{
	mode_running(thread_number);
	return arg;
}

static void in_thread(void *(*run)(void *), int number)
{
	pthread_t thread;

	thread_number = number;
	check(pthread_create(&thread, NULL, run, NULL) == 0, "no thread");
	pthread_join(thread, NULL);
}

static void mode_thread_idle(int number)
{
	in_thread(thread_idle, number);
}

static void mode_thread_running(int number)
{
	in_thread(thread_running, number);
}

static char *early_memory;

/* Before any library's constructor: as by one that is loaded before the hook. */
static void set_early(int argc, char **argv, char **environ_there)
{
	(void)environ_there;
	if (argc < 3 || strcmp(argv[1], "before"))
		return;
	measure_frame();
	early_memory = new_memory();
	put_stack(early_memory, (size_t)atoi(argv[2]), 0, false);
	put_handler(SIGUSR2, stay, 0, false);
}

__attribute__((section(".preinit_array"), used)) static void (*const early)(int, char **,
									    char **) = set_early;

static void mode_before(int number)
{
#ifdef __GLIBC__
	check(early_memory != NULL, "not set before");
#else
	char size[16], *arguments[] = {NULL, (char[]){"before"}, size};

	(void)snprintf(size, sizeof(size), "%d", number); /* musl does not have this place */
	set_early(3, arguments, NULL);
#endif
	run_handler((size_t)number);
	check_memory(early_memory);
}

/* The library is loaded when all is set, and is not before the libc then. */
static void mode_dlopen(int number)
{
	char *memory = new_memory();

	put_stack(memory, (size_t)number, 0, false);
	put_handler(SIGUSR2, stay, 0, false);
	check(dlopen(getenv("HOOK_LIBRARY"), RTLD_NOW | RTLD_GLOBAL) != NULL, "no library");
	run_handler((size_t)number);
	check_memory(memory);
}

/* ---- what the program sees ---- */

static void look(int signal)
{
	sigset_t now;
	char here;

	own_calls += &here < stack_top && &here >= stack_top - LARGE;
	(void)signal;
	sigprocmask(SIG_BLOCK, NULL, &now);
	seen_blocked = sigismember(&now, SIGURG);
}

static void check_mask(bool wanted, bool blocked, int flags)
{
	struct sigaction old;

	check(sigaction(SIGUSR2, NULL, &old) == 0 && old.sa_handler == look &&
		      (old.sa_flags & (SA_ONSTACK | SA_RESTART)) == (SA_ONSTACK | flags) &&
		      sigismember(&old.sa_mask, SIGUSR1) &&
		      sigismember(&old.sa_mask, SIGURG) == wanted,
	      "the program does not see its own action");
	own_calls = 0;
	raise(SIGUSR2);
	check(own_calls == 1 && seen_blocked == blocked, "another mask or stack");
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void mode_seen(int number)
{
	char *memory = new_memory();
	struct sigaction action = {.sa_handler = look, .sa_flags = SA_ONSTACK}, old;

	(void)number;
	put_stack(memory, LARGE, 0, false);
	sigaddset(&action.sa_mask, SIGUSR1);
	check(sigaction(SIGUSR2, &action, &old) == 0 && old.sa_handler == SIG_DFL, "set");
	check(sigaction(SIGUSR2, &action, &old) == 0 && !sigismember(&old.sa_mask, SIGURG),
	      "the program does not see its own action");
	check_mask(false, true, 0);
	check(siginterrupt(SIGUSR2, 0) == 0, "siginterrupt");
	check_mask(false, true, SA_RESTART);
	sigaddset(&action.sa_mask, SIGURG);
	check(sigaction(SIGUSR2, &action, &old) == 0 && !sigismember(&old.sa_mask, SIGURG),
	      "the program does not see its own action");
	check_mask(true, true, 0);
	/* not on that stack: as it is */
	action.sa_flags = 0;
	sigdelset(&action.sa_mask, SIGURG);
	check(sigaction(SIGUSR2, &action, &old) == 0 && sigismember(&old.sa_mask, SIGURG), "set");
	check(sigaction(SIGUSR2, NULL, &old) == 0 && !sigismember(&old.sa_mask, SIGURG), "seen");
	own_calls = 0;
	raise(SIGUSR2);
	check(own_calls == 0 && !seen_blocked, "another mask or stack");
	errno = 0;
	check(sigaction(SIGKILL, &action, NULL) < 0 && errno == EINVAL, "SIGKILL");
	errno = 0;
	check(sigaction(65, &action, NULL) < 0 && errno == EINVAL, "no signal");
	await_end();
}

/* Its own handler of the hook's signal has the stack that it asked for, and all of it.  It is set
 * only where the hook keeps its own: SigCgt cannot distinguish the two. */
static void mode_own(int number)
{
	char *memory = new_memory();

	put_stack(memory, (size_t)number, 0, false);
	if ((size_t)number >= frame_size + HANDLER &&
	    stack_takes_frame((size_t)number, getauxval(AT_MINSIGSTKSZ))) {
		put_handler(SIGURG, look, SA_NODEFER, false);
		raise(SIGURG);
		check(own_calls == 1, "its own handler was called on another stack");
	}
	ready();
	wait_for_end();
	check_memory(memory);
}

static const struct mode modes[] = {
	{"idle", mode_idle},
	{"raw-idle", mode_raw_idle},
	{"running", mode_running},
	{"autodisarm", mode_autodisarm},
	{"raw-stack", mode_raw_stack},
	{"raw-handler", mode_raw_handler},
	{"smaller", mode_smaller},
	{"thread-idle", mode_thread_idle},
	{"thread-running", mode_thread_running},
	{"before", mode_before},
	{"dlopen", mode_dlopen},
	{"seen", mode_seen},
	{"own", mode_own},
};

int main(int argc, char **argv)
{
	if (!early_memory) /* it would take the stack away */
		measure_frame();
	return run_mode(modes, sizeof(modes) / sizeof(modes[0]), argc, argv);
}
