/* diff-steps.c - a program stepped one instruction at a time: before each, its real registers and
 * stack are unwound and compared with the stack that its calls and returns made (callers.h).
 *
 *   diff-steps [OPTIONS] -- COMMAND ARGS...      exit 1 when a stack is wrong, or ends early
 *
 * Thread: one. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/differential/callers.h"
#include "tests/differential/verdicts.h"

enum { STACK_MAX = 65528, INT3 = 0xcc };

struct options {
	char **command;
	uint64_t each, max_steps, signal_every, classes;
	enum uw_engine_kind engine;
	bool from_trap;
};

struct stepper {
	const struct options *options;
	pid_t pid;
	int status;
	struct live live;
	struct callers callers;
	struct verdicts *verdicts;
	struct uw_engine *engine;
	struct user_regs_struct regs;
	uint64_t stack_top; /* of the first stack: what stands above is arguments */
	struct table seen;  /* (pc, caller) -> how often judged */
	uint64_t n_steps, n_signals, since_signal;
	uint8_t stack[STACK_MAX] __attribute__((aligned(8)));
};

static uint32_t true_frames(const struct stepper *s, uint64_t *frames)
{
	return callers_frames(&s->callers, s->regs.rip, frames, UW_MAX_FRAMES);
}

/* ---- one stack ---- */

static void unwind(struct stepper *s, struct verdict *v)
{
	const struct user_regs_struct *r = &s->regs;
	uint64_t regs[UW_X86_COUNT] = {
		r->rax, r->rbx, r->rcx, r->rdx, r->rsi, r->rdi, r->rbp, r->rsp, r->rip, r->eflags,
		r->cs,	r->ss,	r->r8,	r->r9,	r->r10, r->r11, r->r12, r->r13, r->r14, r->r15,
	};
	const struct live_area *area = live_area(&s->live, r->rsp);
	uint64_t end = area ? area->end : r->rsp, len;
	struct uw_snapshot snapshot = {
		.space = s->live.space, .regs = regs, .arch = UW_ARCH_X86_64, .stack = s->stack};
	struct uw_result res = {.frames = v->frames, .max_frames = UW_MAX_FRAMES};

	if (area && s->stack_top >= area->start && s->stack_top < area->end)
		end = s->stack_top;
	len = end > r->rsp ? min_u64(end - r->rsp, STACK_MAX) : 0;
	snapshot.stack_full = len == STACK_MAX;
	snapshot.stack_len = (uint32_t)live_read(&s->live, r->rsp, s->stack, len) & ~7u;
	if (uw_unwind_batch(s->engine, &snapshot, 1, &res) < 0)
		res.outcome = UW_FAILED;
	v->n = res.n_frames;
	v->outcome = res.outcome;
	v->reason = res.reason;
}

static void judge(struct stepper *s)
{
	uint64_t key = hash_u64(s->regs.rip ^ hash_u64(s->callers.top ? s->callers.top->pc : 0));
	uint64_t times = 0;
	struct verdict *v = verdicts_next(s->verdicts);

	(void)table_get(&s->seen, key, &times);
	if (times >= s->options->each || table_put(&s->seen, key, times + 1) < 0)
		return;
	unwind(s, v);
	v->n_truth = true_frames(s, v->truth);
	verdicts_add(s->verdicts, &s->live);
}

/* ---- one step ---- */

static bool catches(pid_t pid, int number)
{
	char path[64], line[256];
	unsigned long long mask = 0;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "SigCgt: %llx", &mask) == 1)
			break;
	if (file)
		fclose(file);
	return mask >> (number - 1) & 1;
}

static bool in_handler(const struct stepper *s)
{
	for (const struct caller *c = s->callers.top; c; c = c->parent)
		if (c->signal)
			return true;
	return false;
}

/* Goes on by one instruction, or into the handler of @number.  1: the program has ended. */
static int go(struct stepper *s, int number)
{
	if (ptrace(PTRACE_SINGLESTEP, s->pid, NULL, (void *)(intptr_t)number) < 0 ||
	    waitpid(s->pid, &s->status, __WALL) < 0)
		return -errno;
	if (!WIFSTOPPED(s->status))
		return 1;
	return ptrace(PTRACE_GETREGS, s->pid, NULL, &s->regs) < 0 ? -errno : 0;
}

static int step_signal(struct stepper *s, int number)
{
	uint64_t interrupted = s->regs.rip;
	int r = go(s, number);

	verdicts_settle(s->verdicts, &s->live);
	s->n_signals++;
	return r ? r : callers_signal(&s->callers, &s->live, interrupted, s->regs.rsp);
}

static int step(struct stepper *s, int *signal)
{
	uint64_t truth[UW_MAX_FRAMES];
	uint8_t code[16] = {0};
	enum callers_event event;
	uint64_t call;
	int r;

	judge(s);
	if (*signal && catches(s->pid, *signal)) {
		r = step_signal(s, *signal);
		*signal = 0;
		return r;
	}
	(void)live_read(&s->live, s->regs.rip, code, sizeof(code));
	if (code[0] == INT3)
		return 1;
	callers_before(&s->callers, code, s->regs.rsp);
	call = callers_at_syscall(&s->callers) ? s->regs.rax : UINT64_MAX;
	r = go(s, *signal);
	*signal = 0;
	if (r)
		return r;
	if (WSTOPSIG(s->status) != SIGTRAP)
		*signal = WSTOPSIG(s->status);
	r = callers_after(&s->callers, &s->live, s->regs.rip, s->regs.rsp, &event);
	if (r == 0 &&
	    (call == SYS_mmap || call == SYS_munmap || call == SYS_mprotect || call == SYS_mremap))
		r = live_refresh(&s->live);
	if (event == CALLERS_SWITCHED)
		verdicts_switch(s->verdicts, &s->live, truth, true_frames(s, truth));
	else if (event != CALLERS_SAME)
		verdicts_settle(s->verdicts, &s->live);
	return r;
}

/* A signal of ours every so many steps of the program's own, from the first that it sent itself. */
static void inject(struct stepper *s, int *signal)
{
	if (!s->options->signal_every || !s->n_signals || *signal || in_handler(s))
		return;
	if (++s->since_signal < s->options->signal_every)
		return;
	s->since_signal = 0;
	*signal = SIGUSR1;
}

/* ---- a program ---- */

static int start(struct stepper *s)
{
	s->pid = fork();
	if (s->pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
			execvp(s->options->command[0], s->options->command);
		_exit(127);
	}
	if (s->pid < 0 || waitpid(s->pid, &s->status, 0) < 0)
		return -errno;
	if (!WIFSTOPPED(s->status))
		return -ENOEXEC;
	(void)ptrace(PTRACE_SETOPTIONS, s->pid, NULL, (void *)(intptr_t)PTRACE_O_EXITKILL);
	if (ptrace(PTRACE_GETREGS, s->pid, NULL, &s->regs) < 0)
		return -errno;
	s->stack_top = s->regs.rsp + 64;
	return live_init(&s->live, s->pid);
}

/* On to the program's own trap; what stands below its function is taken from a first unwinding. */
static int start_at_trap(struct stepper *s)
{
	struct verdict *v = verdicts_next(s->verdicts);
	int r;

	do {
		int signal = WSTOPSIG(s->status) == SIGTRAP ? 0 : WSTOPSIG(s->status);

		if (ptrace(PTRACE_CONT, s->pid, NULL, (void *)(intptr_t)signal) < 0 ||
		    waitpid(s->pid, &s->status, __WALL) < 0)
			return -errno;
		if (!WIFSTOPPED(s->status))
			return -ECHILD;
	} while (WSTOPSIG(s->status) != SIGTRAP);
	if (ptrace(PTRACE_GETREGS, s->pid, NULL, &s->regs) < 0)
		return -errno;
	r = live_refresh(&s->live);
	if (r < 0)
		return r;
	unwind(s, v);
	if (v->outcome != UW_WHOLE)
		return -EBADMSG;
	while (r == 0 && --v->n)
		r = callers_begin(&s->callers, uw_frame_pc(v->frames[v->n]));
	return r;
}

static int run(struct stepper *s)
{
	int signal = 0, r = start(s);

	if (r == 0)
		r = s->options->from_trap ? start_at_trap(s) : live_refresh(&s->live);
	while (r == 0 && s->n_steps < s->options->max_steps) {
		r = step(s, &signal);
		s->n_steps++;
		inject(s, &signal);
	}
	verdicts_settle(s->verdicts, &s->live);
	if (WIFSTOPPED(s->status)) {
		(void)kill(s->pid, SIGKILL);
		(void)waitpid(s->pid, &s->status, __WALL);
	} else if (r == 1 && !(WIFEXITED(s->status) && WEXITSTATUS(s->status) == 0)) {
		return -ECANCELED; /* it did not do what it is for */
	}
	return r < 0 ? r : 0;
}

/* ---- the command line ---- */

static const char usage[] =
	"usage: diff-steps [options] -- COMMAND ARGS...\n"
	"      --each N           judge an instruction at most so often for each caller (2)\n"
	"      --max-steps N      (2000000)\n"
	"      --from-trap        begin at the program's first int3, end at its next\n"
	"      --signal-every N   interrupt it by SIGUSR1, from its first own signal on\n"
	"      --no-files         read modules out of the process's memory\n"
	"      --engine NAME      native, libunwind or libdw\n"
	"      --sure             no frame may be a guess, even if it is right\n"
	"      --allow SYMBOL,... functions with callers that may be missing, or guessed and "
	"wrong\n"
	"      --classes N        of what is not right, to print (10)\n";

static const struct option long_options[] = {
	{"each", required_argument, NULL, 'e'},	   {"max-steps", required_argument, NULL, 'm'},
	{"from-trap", no_argument, NULL, 't'},	   {"signal-every", required_argument, NULL, 's'},
	{"no-files", no_argument, NULL, 'n'},	   {"engine", required_argument, NULL, 'E'},
	{"allow", required_argument, NULL, 'a'},   {"sure", no_argument, NULL, 'S'},
	{"classes", required_argument, NULL, 'c'}, {0},
};

static int parse_option(struct options *options, struct stepper *s, int c)
{
	uint64_t *number = c == 'e'   ? &options->each
			   : c == 'm' ? &options->max_steps
			   : c == 's' ? &options->signal_every
			   : c == 'c' ? &options->classes
				      : NULL;
	char *allow = NULL;

	if (number)
		return parse_u64(optarg, 0, UINT32_MAX, number);
	switch (c) {
	case 't':
		options->from_trap = true;
		return 0;
	case 'n':
		s->live.no_files = true;
		return 0;
	case 'S':
		s->verdicts->sure = true;
		return 0;
	case 'a':
		if (asprintf(&allow, ",%s,", optarg) < 0)
			return -ENOMEM;
		s->verdicts->allow = allow;
		return 0;
	case 'E':
		for (int kind = 0; kind < UW_ENGINE_COUNT; kind++)
			if (!strcmp(optarg, uw_engine_name((enum uw_engine_kind)kind)))
				options->engine = (enum uw_engine_kind)kind;
		return 0;
	default:
		return -EINVAL;
	}
}

int main(int argc, char **argv)
{
	static struct verdicts verdicts;
	static struct stepper s = {.verdicts = &verdicts, .live.mem = -1};
	struct options options = {.each = 2, .max_steps = 2000000, .classes = 10};
	int c, r = 0;

	while ((c = getopt_long(argc, argv, "+", long_options, NULL)) != -1 && r == 0)
		r = parse_option(&options, &s, c);
	if (r < 0 || optind == argc) {
		fputs(usage, stderr);
		return 2;
	}
	options.command = argv + optind;
	s.options = &options;
	r = uw_engine_new(options.engine, &s.engine);
	if (r == 0)
		r = run(&s);
	printf("%s: %llu steps, %llu signals\n", options.command[0], (unsigned long long)s.n_steps,
	       (unsigned long long)s.n_signals);
	verdicts_print(&verdicts, options.classes);
	if (r < 0)
		fprintf(stderr, "diff-steps: %s\n", strerror(-r));
	uw_engine_free(s.engine);
	callers_deinit(&s.callers);
	table_deinit(&s.seen);
	live_deinit(&s.live);
	free((char *)(uintptr_t)verdicts.allow);
	return r < 0 ? 2 : verdicts.n_early || verdicts.n_wrong || !verdicts.n_right;
}
