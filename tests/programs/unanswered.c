/* unanswered.c - memory behind a userfaultfd without a process that answers: unanswered SECONDS.
 *
 *   stack   [ dropped: behind it ................ ][ there: 128 KB ][ sp
 *            outer frames, deeper than any copy
 *   code    [ page with code ][ never touched: behind it ]
 *
 * A reader of that memory sleeps, if the kernel does not prevent it.  It prints "ready" when all is so, and is 77
 * where there is no userfaultfd.  main > on_stack > descend (many) > innermost > jitted code > burn */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "program.h"

enum { STACK = 4 << 20, DEPTH = 200, FRAME = 4096, THERE = 128 << 10, PAGE = 4096 };

static uint8_t *stack, *area;
static int uffd;

/* A call of its argument, with a frame pointer; see jit.c. */
static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x40, 0x48,
			       0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0, 0xc9, 0xc3};

static void put_behind(uint8_t *from, size_t len)
{
	struct uffdio_register r = {.range = {.start = (uintptr_t)from, .len = len},
				    .mode = UFFDIO_REGISTER_MODE_MISSING};

	if (ioctl(uffd, UFFDIO_REGISTER, &r) < 0) {
		perror("unanswered: register");
		_exit(1);
	}
}

static NOINLINE void innermost(void)
{
	uint8_t here;
	uint8_t *keep = (uint8_t *)(((uintptr_t)&here + THERE) & ~(uintptr_t)(PAGE - 1));
	uint64_t (*jitted)(uint64_t(*)(uint64_t), uint64_t);

	memcpy(&jitted, &area, sizeof(jitted));
	put_behind(stack, STACK);
	put_behind(area + PAGE, PAGE);
	if (madvise(keep, (size_t)(stack + STACK - keep), MADV_DONTNEED) < 0)
		_exit(1);
	(void)!write(1, "ready\n", 6);
	while (program_running())
		jitted(burn, 100);
	if (program_sink) /* always: there is no way back */
		_exit(0);
}

static NOINLINE void descend(int depth)
{
	volatile uint8_t frame[FRAME];

	frame[0] = (uint8_t)depth;
	if (depth)
		descend(depth - 1);
	else
		innermost();
	program_sink += frame[0];
}

static void on_stack(void)
{
	descend(DEPTH);
	NOT_LAST;
}

int main(int argc, char **argv)
{
	struct uffdio_api api = {.api = UFFD_API};
	static ucontext_t here, there;

	program_start(argc, argv);
	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) < 0) {
		perror("userfaultfd");
		return 77;
	}
	stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	area = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	if (stack == MAP_FAILED || area == MAP_FAILED)
		return 1;
	memset(stack, 0, STACK);
	memcpy(area, code, sizeof(code));
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = STACK;
	there.uc_link = &here;
	makecontext(&there, on_stack, 0);
	swapcontext(&here, &there);
	return 0;
}
