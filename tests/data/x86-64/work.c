/* work.c - the program of the recordings in this folder: no library, so that the file is small.
 *
 * A process and its child ("made", by PR_SET_NAME) work until each was sampled some times:
 *   start_c main left middle burn          start_c main right burn
 *   start_c main down x6 burn              start_c child_main with_array burn
 * See tests/README.md for how it was built and recorded. */
#include <stdint.h>

#define NOINLINE __attribute__((noinline, noclone))
/* What stands behind a call keeps it from being a tail call. */
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

enum {
	SYS_fork = 57,
	SYS_exit = 60,
	SYS_wait4 = 61,
	SYS_prctl = 157,
	SET_NAME = 15, /* PR_SET_NAME */
	ROUNDS = 2000000,
};

static volatile uint64_t sink;

static long call4(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

/* What is in memory gives it a frame pointer where frames have one. */
NOINLINE static void burn(uint64_t rounds)
{
	volatile uint64_t i;
	uint64_t x = rounds + 1;

	for (i = 0; i < rounds; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	sink += x;
}

NOINLINE static void middle(void)
{
	burn(ROUNDS * 2);
	KEEP_FRAME();
}

NOINLINE static void left(void)
{
	middle();
	KEEP_FRAME();
}

NOINLINE static void right(void)
{
	burn(ROUNDS);
	KEEP_FRAME();
}

NOINLINE static void down(int more)
{
	if (more)
		down(more - 1);
	else
		burn(ROUNDS);
	KEEP_FRAME();
}

/* The frame's size is known when it runs only. */
NOINLINE static void with_array(int n)
{
	volatile uint64_t array[n];

	array[n - 1] = 1;
	burn(ROUNDS);
	sink += array[n - 1];
}

NOINLINE static void child_main(void)
{
	(void)call4(SYS_prctl, SET_NAME, (long)"made", 0, 0);
	for (int i = 0; i < 4; i++)
		with_array(8 + i);
	KEEP_FRAME();
}

NOINLINE static int main(void)
{
	long child = call4(SYS_fork, 0, 0, 0, 0);

	if (!child) {
		child_main();
		return 0;
	}
	for (int i = 0; i < 3; i++) {
		left();
		right();
		down(5);
	}
	(void)call4(SYS_wait4, child, 0, 0, 0);
	return 0;
}

__attribute__((used)) static void start_c(void)
{
	(void)call4(SYS_exit, main(), 0, 0, 0);
	__builtin_unreachable();
}

__asm__(".globl _start\n"
	".type _start, @function\n"
	"_start:\n"
	".cfi_startproc\n"
	".cfi_undefined rip\n"
	"	xorl %ebp, %ebp\n"
	"	call start_c\n"
	".cfi_endproc\n"
	".size _start, . - _start\n");
