/* steps.c - for diff-steps, which steps it from one trap to the next: every kind of frame that a C
 * program has.
 *
 *   steps CASE      the cases are listed at the end
 *
 * Without a tracer the trap ends it. */
#include <alloca.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "program.h"

#define TRAP() __asm__ volatile("int3")

static NOINLINE uint64_t leaf(uint64_t x)
{
	return x * 6364136223846793005ull + 1;
}

/* Several executable segments: where the linker is given an address for it. */
#ifdef ELSEWHERE
__attribute__((section(".elsewhere")))
#endif
static NOINLINE uint64_t
few_registers(uint64_t a, uint64_t b)
{
	uint64_t x = leaf(a);

	return x + leaf(b) + a;
}

/* Registers of the caller: saved by pushes, given back by as many pops. */
static NOINLINE uint64_t many_registers(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
					uint64_t f, uint64_t g, uint64_t h)
{
	uint64_t x = leaf(a), y = leaf(b), z = few_registers(c, d);

	return x * a + y * b + z * c + d * e + leaf(f) * g + h;
}

static NOINLINE uint64_t with_alloca(size_t n)
{
	volatile uint8_t *bytes = alloca(n);

	bytes[n - 1] = 1;
	return leaf(n) + bytes[n - 1];
}

static NOINLINE uint64_t with_vla(int n)
{
	volatile uint64_t words[n];
	uint64_t x = 0;

	for (int i = 0; i < n; i++)
		words[i] = leaf((uint64_t)i);
	for (int i = 0; i < n; i++)
		x += words[i];
	return x;
}

/* As for AVX locals: the frame's address is no longer rsp or rbp plus a number. */
static NOINLINE uint64_t realigned(uint64_t a)
{
	volatile uint64_t wide[8] __attribute__((aligned(64)));

	wide[a & 7] = leaf(a);
	return wide[a & 7] + few_registers(a, a);
}

static NOINLINE uint64_t realigned_alloca(size_t n, ...)
{
	volatile uint64_t wide[8] __attribute__((aligned(64)));
	volatile uint8_t *bytes = alloca(n);
	va_list list;

	va_start(list, n);
	bytes[0] = (uint8_t)va_arg(list, int);
	va_end(list);
	wide[n & 7] = leaf(n);
	return wide[n & 7] + bytes[0] + many_registers(1, 2, 3, 4, 5, 6, 7, 8);
}

static NOINLINE uint64_t big_frame(int i)
{
	volatile uint8_t bytes[90304];

	bytes[i] = (uint8_t)leaf((uint64_t)i);
	return bytes[i] + few_registers(1, 2);
}

static NOINLINE uint64_t variadic(int n, ...)
{
	va_list list;
	uint64_t x = 0;

	va_start(list, n);
	while (n--)
		x += leaf(va_arg(list, uint64_t));
	va_end(list);
	return x;
}

/* The early way out is taken before anything is saved. */
static NOINLINE uint64_t shrink_wrapped(uint64_t a, uint64_t *words)
{
	uint64_t x, y;

	if (a < 3)
		return a + 1;
	x = leaf(a);
	y = leaf(x);
	words[0] = x ^ y;
	return x + y + words[0] + a;
}

static NOINLINE uint64_t tail_second(uint64_t a)
{
	return leaf(a) + 1;
}

static NOINLINE uint64_t tail_first(uint64_t a)
{
	program_sink += leaf(a);
	return tail_second(a + 1); /* a jump where calls to siblings are optimized */
}

static jmp_buf back;

static NOINLINE __attribute__((noreturn)) void never_returns(int value)
{
	program_sink += leaf(7);
	longjmp(back, value);
}

/* The call is the last instruction: its return address lies behind the function. */
static NOINLINE __attribute__((noreturn)) void ends_in_call(int value)
{
	volatile int copy = value;

	never_returns(copy + 1);
}

static void run_frames(void)
{
	uint64_t words[2] = {0};

	many_registers(1, 2, 3, 4, 5, 6, 7, 8);
	with_alloca(100);
	with_alloca(5000);
	with_vla(9);
	realigned(3);
	realigned_alloca(33, 1);
	big_frame(5);
	variadic(3, (uint64_t)1, (uint64_t)2, (uint64_t)3);
	shrink_wrapped(1, words);
	shrink_wrapped(5, words);
	tail_first(3);
	NOT_LAST;
}

static void run_longjmp(void)
{
	if (!setjmp(back))
		ends_in_call(1);
	NOT_LAST;
}

/* ---- libc: hand-written assembly, and the resolver where it is bound at the first call ---- */

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void run_libc(void)
{
	static uint8_t from[4096], to[4096];
	static const size_t sizes[] = {1, 3, 7, 15, 16, 31, 33, 64, 100, 250, 600, 3000};
	int numbers[20];
	char text[100];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		volatile size_t n = sizes[i];

		memcpy(to, from, n);
		memmove(to + 1, to, n - 1);
		memset(from, (int)i + 1, n);
		program_sink += (uint64_t)memcmp(to, from, n) + strnlen((char *)from, n) +
				(memchr(to, 77, n) != NULL);
	}
	for (int i = 0; i < 20; i++)
		numbers[i] = (i * 7) % 20;
	qsort(numbers, 20, sizeof(*numbers), compare);
	snprintf(text, sizeof(text), "%d %s %g", numbers[3], "text", 0.5);
	program_sink += strtoul(text, NULL, 10) + (strstr(text, "ex") != NULL) + strlen(text);
	free(realloc(malloc(100), 5000));
	program_sink += (uint64_t)getpid() + (uint64_t)getppid() + (uint64_t)sysconf(_SC_PAGESIZE);
}

static void run_vdso(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	clock_gettime(CLOCK_REALTIME_COARSE, &ts);
	program_sink += (uint64_t)time(NULL);
}

static void run_vfork(void)
{
	pid_t pid = vfork();

	if (pid == 0)
		_exit(0);
	(void)waitpid(pid, NULL, 0);
	NOT_LAST;
}

/* OpenSSL's hand-written assembly. */
static void run_crypto(void)
{
	static uint8_t data[1000], digest[64];
	void *library = dlopen("libcrypto.so.3", RTLD_NOW);
	uint8_t *(*sha)(const uint8_t *, size_t, uint8_t *);

	for (int i = 0; i < 3; i++) {
		static const char *const names[] = {"SHA1", "SHA256", "SHA512"};

		sha = library ? (uint8_t * (*)(const uint8_t *, size_t, uint8_t *))(
					(uintptr_t)dlsym(library, names[i]))
			      : NULL;
		if (!sha)
			exit(77);
		if (!i) { /* its own beginning is of no interest */
			sha(data, 1, digest);
			TRAP();
		}
		program_sink += sha(data, sizeof(data), digest)[0];
	}
}

/* ---- signals ---- */

static NOINLINE void handler_work(int number)
{
	program_sink += few_registers((uint64_t)number, 2);
	NOT_LAST;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)info, (void)context;
	handler_work(number);
	NOT_LAST;
}

static void signals(int flags)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};

	sigaction(SIGUSR1, &action, NULL);
	TRAP();
	raise(SIGUSR1);
	run_frames(); /* the tracer interrupts it */
	run_vdso();
}

static void run_signal(void)
{
	signals(0);
}

static void run_signal_alt(void)
{
	static char alternate[1 << 16];
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};

	sigaltstack(&stack, NULL);
	signals(SA_ONSTACK);
}

/* ---- stacks of their own ---- */

static ucontext_t contexts[2];

static NOINLINE void coroutine_main(int n)
{
	for (int i = 0; i < n; i++) {
		few_registers((uint64_t)i, 3);
		swapcontext(&contexts[1], &contexts[0]);
	}
}

static void run_ucontext(void)
{
	static char stack[32768];

	getcontext(&contexts[1]);
	contexts[1].uc_stack.ss_sp = stack;
	contexts[1].uc_stack.ss_size = sizeof(stack);
	contexts[1].uc_link = &contexts[0];
	makecontext(&contexts[1], (void (*)(void))coroutine_main, 1, 2);
	for (int i = 0; i < 3; i++)
		swapcontext(&contexts[0], &contexts[1]);
}

/* Switches by hand: @from[0] takes the stack pointer, what else it has the other registers, as each
 * kind wants; @to is what another one took.  CFI is complete, or only where the function begins
 * and ends (lazy: it is not true then), or not at all. */
typedef void switch_fn(void **from, void **to);
#define FUNCTION(name, begin, body, end)                                                        \
	__asm__(".text\n.globl " name "\n.type " name ", @function\n" name ":\n" begin body end \
		".size " name ", . - " name "\n")
#define LAZY_BEGIN ".cfi_startproc\n"
#define LAZY_END ".cfi_endproc\n"
#define SWITCH(name, body)                      \
	switch_fn name##_nocfi, name##_lazy;    \
	FUNCTION(#name "_nocfi", "", body, ""); \
	FUNCTION(#name "_lazy", LAZY_BEGIN, body, LAZY_END)

/* Everything on the stack. */
SWITCH(switch, "push %rbp\npush %rbx\npush %r12\nmov %rsp, (%rdi)\nmov (%rsi), %rsp\n"
	       "pop %r12\npop %rbx\npop %rbp\nret\n");
/* As boost.context does: no pushes, and a jump at the end. */
SWITCH(switch_jump, "lea -24(%rsp), %rsp\nmov %r12, (%rsp)\nmov %rbx, 8(%rsp)\nmov %rbp, 16(%rsp)\n"
		    "mov %rsp, (%rdi)\nmov (%rsi), %rsp\nmov 24(%rsp), %r8\nmov (%rsp), %r12\n"
		    "mov 8(%rsp), %rbx\nmov 16(%rsp), %rbp\nlea 32(%rsp), %rsp\njmp *%r8\n");
/* As libco does: only the return address is on the stack. */
SWITCH(switch_pop, "mov %rsp, (%rdi)\nmov (%rsi), %rsp\npop %rax\nmov %rbp, 8(%rdi)\n"
		   "mov %rbx, 16(%rdi)\nmov %r12, 24(%rdi)\nmov 8(%rsi), %rbp\nmov 16(%rsi), %rbx\n"
		   "mov 24(%rsi), %r12\njmp *%rax\n");
/* As glibc's swapcontext does: not even that. */
SWITCH(switch_push,
       "mov (%rsp), %rcx\nmov %rcx, 32(%rdi)\nlea 8(%rsp), %rcx\nmov %rcx, (%rdi)\n"
       "mov %rbp, 8(%rdi)\nmov %rbx, 16(%rdi)\nmov %r12, 24(%rdi)\nmov (%rsi), %rsp\n"
       "mov 16(%rsi), %rbx\nmov 8(%rsi), %rbp\nmov 24(%rsi), %r12\nmov 32(%rsi), %rcx\n"
       "push %rcx\nxor %eax, %eax\nret\n");

switch_fn switch_cfi;
#define MOVED(by, what) ".cfi_adjust_cfa_offset " by "\n" what "\n"
#define SAVED(reg) MOVED("8", ".cfi_rel_offset " reg ", 0")
#define RESTORED(reg) MOVED("-8", ".cfi_restore " reg)
FUNCTION("switch_cfi", LAZY_BEGIN,
	 "push %rbp\n" SAVED("%rbp") "push %rbx\n" SAVED("%rbx") "push %r12\n" SAVED(
		 "%r12") "mov %rsp, (%rdi)\nmov (%rsi), %rsp\n"
			 "pop %r12\n" RESTORED("%r12") "pop %rbx\n" RESTORED(
				 "%rbx") "pop %rbp\n" RESTORED("%rbp") "ret\n",
	 LAZY_END);

static void *main_regs[5], *other_regs[5];
static switch_fn *switch_to;

static NOINLINE void fiber_main(void)
{
	for (int i = 0;; i++) {
		few_registers((uint64_t)i, 4);
		switch_to(other_regs, main_regs);
	}
}

/* @saved: the registers that are on the stack below the entry. */
static NOINLINE void switches(switch_fn *how, unsigned saved, bool entry_on_stack)
{
	static uint64_t stack[4096] __attribute__((aligned(16)));
	uint64_t *sp = &stack[4094]; /* 0: what the entry would return to */

	switch_to = how;
	other_regs[4] = (void *)(uintptr_t)fiber_main;
	if (entry_on_stack)
		*--sp = (uint64_t)(uintptr_t)fiber_main;
	other_regs[0] = sp - saved;
	for (int i = 0; i < 3; i++)
		how(main_regs, other_regs);
	NOT_LAST;
}

static void fiber_signals(void)
{
	raise(SIGUSR1);
	run_frames(); /* the tracer interrupts it */
	switch_cfi(other_regs, main_regs);
}

/* A handler's stack that lies above the one that it interrupted. */
static void run_signal_above(void)
{
	static uint64_t low[32768] __attribute__((aligned(16))); /* run_frames() has a large one */
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	char alternate[1 << 16];
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	TRAP();
	low[32764] = (uint64_t)(uintptr_t)fiber_signals;
	other_regs[0] = &low[32761];
	switch_cfi(main_regs, other_regs);
	NOT_LAST;
}

/* ---- assembly without CFI: a leaf, one with a frame and a call, one with rbp, one that jumps ----
 */
uint64_t nocfi_leaf(uint64_t x), nocfi_frame(uint64_t x), nocfi_rbp(uint64_t x),
	nocfi_loop(uint64_t x);
__asm__(".text\n"
	".type nocfi_leaf, @function\nnocfi_leaf:\n"
	"lea 1(%rdi), %rax\nimul %rdi, %rax\nxor $5, %rax\nret\n"
	".size nocfi_leaf, . - nocfi_leaf\n"
	".type nocfi_frame, @function\nnocfi_frame:\n"
	"push %rbx\nsub $48, %rsp\nmov %rdi, %rbx\nmov %rdi, 8(%rsp)\ncall nocfi_leaf\n"
	"add %rbx, %rax\nmovups %xmm0, 16(%rsp)\nadd $48, %rsp\npop %rbx\nret\n"
	".size nocfi_frame, . - nocfi_frame\n"
	".type nocfi_rbp, @function\nnocfi_rbp:\n"
	"push %rbp\nmov %rsp, %rbp\nsub $32, %rsp\ncall nocfi_frame\nleave\nret\n"
	".size nocfi_rbp, . - nocfi_rbp\n"
	".type nocfi_loop, @function\nnocfi_loop:\n"
	"push %r12\npush %r13\nmov $3, %r12d\n1: imul $7, %rdi, %rdi\ntest $1, %dil\nje 2f\n"
	"add $1, %rdi\n2: dec %r12d\njnz 1b\nmov %rdi, %rax\npop %r13\npop %r12\nret\n"
	".size nocfi_loop, . - nocfi_loop\n");

static void run_nocfi(void)
{
	program_sink += nocfi_leaf(1) + nocfi_frame(2) + nocfi_rbp(3) + nocfi_loop(4);
	NOT_LAST;
}

/* ---- code of no file: in anonymous memory, and in a file of memory ---- */

static NOINLINE uint64_t call_code(void *code, uint64_t x)
{
	uint64_t y = ((uint64_t(*)(uint64_t))code)(x);

	return y + 1;
}

/* With a frame pointer, as JIT code has. */
static const uint8_t jit_code[] = {
	0x55, 0x48, 0x89, 0xe5,			  /* push %rbp; mov %rsp,%rbp */
	0x48, 0x83, 0xec, 0x10,			  /* sub $16,%rsp */
	0x48, 0x89, 0x7d, 0xf8,			  /* mov %rdi,-8(%rbp) */
	0x48, 0x8b, 0x45, 0xf8, 0x48, 0xff, 0xc0, /* mov -8(%rbp),%rax; inc %rax */
	0xc9, 0xc3,				  /* leave; ret */
};

static void run_jit(void)
{
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(code + 64, jit_code, sizeof(jit_code));
	call_code(code + 64, 5);
}

static void run_memfd(void)
{
	int fd = memfd_create("code", MFD_CLOEXEC);
	uint8_t *code;

	if (pwrite(fd, jit_code, sizeof(jit_code), 64) != sizeof(jit_code))
		exit(1);
	code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	call_code(code + 64, 5);
}

static const struct {
	const char *name;
	switch_fn *how;
	unsigned saved;
	bool entry_on_stack;
} switch_cases[] = {
	{"switch_cfi", switch_cfi, 3, true},
	{"switch_nocfi", switch_nocfi, 3, true},
	{"switch_lazy", switch_lazy, 3, true},
	{"switch_jump_nocfi", switch_jump_nocfi, 3, true},
	{"switch_jump_lazy", switch_jump_lazy, 3, true},
	{"switch_pop_nocfi", switch_pop_nocfi, 0, true},
	{"switch_pop_lazy", switch_pop_lazy, 0, true},
	{"switch_push_nocfi", switch_push_nocfi, 0, false},
	{"switch_push_lazy", switch_push_lazy, 0, false},
};

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
		bool traps_itself;
	} cases[] = {
		{"frames", run_frames, false},
		{"longjmp", run_longjmp, false},
		{"libc", run_libc, false},
		{"vdso", run_vdso, false},
		{"vfork", run_vfork, false},
		{"crypto", run_crypto, true},
		{"signal", run_signal, true},
		{"signal-alt", run_signal_alt, true},
		{"signal-above", run_signal_above, true},
		{"ucontext", run_ucontext, false},
		{"nocfi", run_nocfi, false},
		{"jit", run_jit, false},
		{"memfd", run_memfd, false},
	};

	for (size_t i = 0; argc > 1 && i < sizeof(switch_cases) / sizeof(*switch_cases); i++) {
		if (strcmp(argv[1], switch_cases[i].name) != 0)
			continue;
		TRAP();
		switches(switch_cases[i].how, switch_cases[i].saved,
			 switch_cases[i].entry_on_stack);
		TRAP();
		return 0;
	}
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(*cases); i++) {
		if (strcmp(argv[1], cases[i].name) != 0)
			continue;
		if (!cases[i].traps_itself)
			TRAP();
		cases[i].run();
		TRAP();
		return 0;
	}
	return 2;
}
