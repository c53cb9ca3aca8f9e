/* test-native-self.c - the native engine over this very process: real CFI of this program and of
 * libc, read by the real loader.  What must be found is known from the return addresses that each
 * function notes of itself. */
#include "tests/unit/cmocka.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "symbols/module.h"
#include "unwinder/unwinder.h"

#define NOINLINE __attribute__((noinline, noclone))

enum { MAPS = 64, STACK = 65528, NOTES = 32, SAMPLES = 64 };

static struct {
	struct uw_memory memory;
	int mem;
	struct uw_space *space;
	struct uw_engine *engine;
	uint64_t stack_end; /* of the main thread's */
} self;

struct shot {
	uint64_t regs[UW_X86_COUNT];
	uint64_t stack[STACK / 8];
	uint32_t len;
	bool full;
	uint64_t notes[NOTES]; /* return addresses that must be found, outermost first */
	unsigned n_notes;
};

/* What the functions under way have noted. */
static volatile uint64_t notes[NOTES];
static volatile unsigned n_notes;
#define NOTE() \
	(notes[n_notes] = (uint64_t)(uintptr_t)__builtin_return_address(0), n_notes = n_notes + 1)
#define UNNOTE() (n_notes = n_notes - 1)

static struct shot shots[SAMPLES];
static volatile unsigned n_shots;

static ssize_t self_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	(void)memory;
	return pread(self.mem, to, len, (off_t)address);
}

/* ---- this process as a space ---- */

static void load(struct uw_module *module, const char *path)
{
	struct uw_source source = {.fd = open(path, O_RDONLY | O_CLOEXEC)};

	if (source.fd < 0 || uw_module_load_unwind(module, &source) < 0)
		uw_module_set_unreadable(module);
	if (source.fd >= 0)
		close(source.fd);
}

static void load_vdso(struct uw_module **ret, uint64_t start, uint64_t end)
{
	struct uw_source source = {.fd = -1, .memory = &self.memory, .start = start, .end = end};

	assert_int_equal(uw_module_new(UW_MODULE_MEMORY, "[vdso]", NULL, ret), 0);
	assert_int_equal(uw_module_load_unwind(*ret, &source), 0);
}

static int setup(void **state)
{
	struct uw_map maps[MAPS] = {0};
	size_t n = 0;
	char line[4352];
	FILE *f = fopen("/proc/self/maps", "re");

	(void)state;
	self.memory.read = self_read;
	self.mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		char perms[5], path[4097] = "";
		unsigned long start, end, offset;

		if (sscanf(line, "%lx-%lx %4s %lx %*s %*s %4096s", &start, &end, perms, &offset,
			   path) < 4)
			continue;
		if (!strcmp(path, "[stack]"))
			self.stack_end = end;
		if (perms[2] != 'x' || n == MAPS || !strcmp(path, "[vsyscall]"))
			continue;
		maps[n] = (struct uw_map){.start = start, .end = end, .offset = offset};
		if (path[0] == '/') {
			assert_int_equal(uw_module_new(UW_MODULE_FILE, path, NULL, &maps[n].module),
					 0);
			load(maps[n].module, path);
		} else if (!strcmp(path, "[vdso]")) {
			load_vdso(&maps[n].module, start, end);
		}
		n++;
	}
	fclose(f);
	assert_int_equal(uw_space_new(maps, n, 1, &self.memory, &self.space), 0);
	for (size_t i = 0; i < n; i++)
		uw_module_unref(maps[i].module);
	return uw_engine_new(UW_ENGINE_NATIVE, &self.engine);
}

static int teardown(void **state)
{
	(void)state;
	uw_engine_free(self.engine);
	uw_space_unref(self.space);
	close(self.mem);
	return 0;
}

/* ---- snapshots ---- */

/* Every word of it, also those that the address sanitizer keeps between our variables. */
__attribute__((no_sanitize("address", "thread"))) static void copy_stack(uint64_t *to, uint64_t sp,
									 uint32_t len)
{
	const volatile uint64_t *from = (const volatile uint64_t *)(uintptr_t)sp;

	for (uint32_t i = 0; i < len / 8; i++)
		to[i] = from[i];
}

static void shoot(const ucontext_t *uc)
{
	static const uint8_t order[UW_X86_COUNT] = {
		[UW_X86_AX] = REG_RAX,
		[UW_X86_BX] = REG_RBX,
		[UW_X86_CX] = REG_RCX,
		[UW_X86_DX] = REG_RDX,
		[UW_X86_SI] = REG_RSI,
		[UW_X86_DI] = REG_RDI,
		[UW_X86_BP] = REG_RBP,
		[UW_X86_SP] = REG_RSP,
		[UW_X86_IP] = REG_RIP,
		[UW_X86_R8] = REG_R8,
		REG_R9,
		REG_R10,
		REG_R11,
		REG_R12,
		REG_R13,
		REG_R14,
		REG_R15,
	};
	struct shot *shot = &shots[n_shots];
	uint64_t sp = (uint64_t)uc->uc_mcontext.gregs[REG_RSP], len = self.stack_end - sp;

	if (n_shots == SAMPLES || sp >= self.stack_end)
		return;
	for (size_t i = 0; i < UW_X86_COUNT; i++)
		shot->regs[i] = (uint64_t)uc->uc_mcontext.gregs[order[i]];
	shot->full = len > STACK;
	shot->len = (uint32_t)(shot->full ? STACK : len);
	copy_stack(shot->stack, sp, shot->len);
	for (unsigned i = 0; i < n_notes; i++)
		shot->notes[i] = notes[i];
	shot->n_notes = n_notes;
	n_shots = n_shots + 1;
}

static void on_profile(int signal, siginfo_t *info, void *uc)
{
	(void)signal;
	(void)info;
	shoot(uc);
}

static void shoot_here(void)
{
	ucontext_t uc;

	getcontext(&uc);
	shoot(&uc);
}

/* The whole stack, with every noted return address in it and in order. */
static void check(const struct shot *shot, unsigned *ret_signals)
{
	uint64_t frames[UW_MAX_FRAMES];
	struct uw_snapshot snapshot = {
		.space = self.space,
		.regs = shot->regs,
		.arch = UW_ARCH_X86_64,
		.stack_full = shot->full,
		.stack_len = shot->len,
		.stack = (const uint8_t *)shot->stack,
	};
	struct uw_result res = {.frames = frames, .max_frames = UW_MAX_FRAMES};
	unsigned left = shot->n_notes;

	assert_int_equal(uw_unwind_batch(self.engine, &snapshot, 1, &res), 0);
	*ret_signals = 0;
	for (uint32_t i = 0; i < res.n_frames; i++) {
		if (left && frames[i] == (shot->notes[left - 1] | UW_FRAME_CALLER))
			left--;
		*ret_signals += !!(frames[i] & UW_FRAME_SIGNAL);
		assert_false(frames[i] & UW_FRAME_GUESSED);
	}
	if (res.outcome != UW_WHOLE || left)
		print_error("pc %#lx: %s %s at %#lx, %u frames, %u of %u notes not found\n",
			    (unsigned long)shot->regs[UW_X86_IP], uw_outcome_name(res.outcome),
			    uw_reason_name(res.reason), (unsigned long)res.stopped_at, res.n_frames,
			    left, shot->n_notes);
	assert_int_equal(res.outcome, UW_WHOLE);
	assert_int_equal(left, 0);
}

/* ---- what is profiled ---- */

static void (*volatile at_bottom)(void);

/* alloca: its CFA is by rbp or another register, whatever the flags. */
static NOINLINE int sized(volatile int n)
{
	volatile char *bytes = __builtin_alloca((size_t)n);

	NOTE();
	bytes[0] = bytes[n - 1] = 1;
	at_bottom();
	UNNOTE();
	return bytes[0];
}

/* A realigned stack: the CFA is an expression or another register. */
static NOINLINE int aligned(volatile int n)
{
	volatile _Alignas(64) char bytes[128];

	NOTE();
	bytes[0] = (char)n;
	n = sized(n) + bytes[0];
	UNNOTE();
	return n;
}

static int compare(const void *a, const void *b)
{
	int r;

	NOTE();
	if (n_shots < SAMPLES && *(const int *)a == 7)
		aligned(100);
	r = *(const int *)a - *(const int *)b;
	UNNOTE();
	return r;
}

/* libc, which is built without frame pointers, stands between. */
static NOINLINE void sort(void)
{
	int list[] = {9, 3, 7, 1, 8, 7, 2};

	NOTE();
	qsort(list, ARRAY_SIZE(list), sizeof(list[0]), compare);
	assert_int_equal(list[6], 9);
	UNNOTE();
}

static NOINLINE void recurse(volatile int depth)
{
	NOTE();
	if (depth)
		recurse(depth - 1);
	else
		sort();
	UNNOTE();
}

static void test_calls(void **state)
{
	unsigned signals;

	(void)state;
	n_shots = 0;
	at_bottom = shoot_here;
	recurse(10);
	assert_true(n_shots > 0);
	for (unsigned i = 0; i < n_shots; i++) {
		assert_int_equal(shots[i].n_notes, 15);
		check(&shots[i], &signals);
		assert_int_equal(signals, 0);
	}
}

static void on_signal(int signal)
{
	(void)signal;
	shoot_here();
}

static void raise_signal(void)
{
	raise(SIGUSR1);
}

static void test_handler(void **state)
{
	struct sigaction action = {.sa_handler = on_signal};
	unsigned signals;

	(void)state;
	n_shots = 0;
	at_bottom = raise_signal;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	recurse(3);
	assert_true(n_shots > 0);
	for (unsigned i = 0; i < n_shots; i++) {
		check(&shots[i], &signals);
		assert_int_equal(signals, 1);
	}
}

static unsigned alternate_signals;

/* Unwound at once: the other stack is read out of the process, where it must still stand. */
static void on_signal_check(int signal)
{
	(void)signal;
	shoot_here();
	check(&shots[0], &alternate_signals);
}

/* The handler on a stack of its own: the copy is of that one, the rest comes out of the process. */
static void test_alternate_stack(void **state)
{
	static char alternate[1 << 18];
	struct sigaction action = {.sa_handler = on_signal_check, .sa_flags = SA_ONSTACK};
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)},
		none = {.ss_flags = SS_DISABLE};
	uint64_t end = self.stack_end;

	(void)state;
	n_shots = 0;
	self.stack_end = (uint64_t)(uintptr_t)alternate + sizeof(alternate);
	assert_int_equal(sigaltstack(&stack, NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	NOTE();
	raise_signal();
	UNNOTE();
	self.stack_end = end;
	assert_int_equal(sigaltstack(&none, NULL), 0);
	assert_int_equal(n_shots, 1);
	assert_int_equal(alternate_signals, 1);
}

static volatile uint64_t sink;

static void spin(void)
{
	char text[64];

	for (int i = 0; i < 50; i++)
		sink += (uint64_t)snprintf(text, sizeof(text), "%d %s %f", i, "text", i * 0.5);
}

/* Interrupted anywhere: prologues, epilogues, libc's assembly, the PLT. */
static void test_interrupts(void **state)
{
	struct sigaction action = {.sa_sigaction = on_profile, .sa_flags = SA_SIGINFO | SA_RESTART};
	struct itimerval timer = {.it_interval = {.tv_usec = 1000}, .it_value = {.tv_usec = 1000}},
			 off = {0};
	unsigned signals;

	(void)state;
	n_shots = 0;
	at_bottom = spin;
	assert_int_equal(sigaction(SIGPROF, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_PROF, &timer, NULL), 0);
	NOTE();
	for (int i = 0; i < 20000 && n_shots < SAMPLES; i++) {
		unsigned noted = n_notes;

		recurse(5);
		assert_int_equal(n_notes, noted);
	}
	UNNOTE();
	assert_int_equal(setitimer(ITIMER_PROF, &off, NULL), 0);
	assert_true(n_shots > 8);
	for (unsigned i = 0; i < n_shots; i++) {
		/* Those noted in the middle of a prologue or epilogue may be moving in or out.
		 */
		shots[i].n_notes = 1;
		check(&shots[i], &signals);
		assert_int_equal(signals, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_handler),
		cmocka_unit_test(test_alternate_stack),
		cmocka_unit_test(test_interrupts),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
