/* shadow.c - the judge: a program that knows its true stack.  Built with -finstrument-functions, it
 * keeps every call site on a stack of its own; a SIGPROF handler copies registers, stack and that
 * truth, and at the end they are written to FILE in the form of tests/differential/samples.h
 * (diff-engines --load FILE --judge).
 *
 *   shadow [SECONDS] FILE
 *
 * main > work_round > work_* (of many shapes, in random order) ... ; qsort > work_compare in
 * between */
#include <alloca.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "program.h"
#include "tests/differential/samples.h"

#define UNSEEN __attribute__((no_instrument_function))

enum { DEPTH_MAX = 4096, COPY_MAX = 65528, EVERY_US = 700 };
#define AREA_BYTES (1ull << 30)

static uint64_t truth[DEPTH_MAX];
static volatile uint32_t depth;
static struct samples_area area;
static uint64_t stack_end, n_taken;
static uint32_t seed = 1;

UNSEEN void __cyg_profile_func_enter(void *function, void *site);
UNSEEN void __cyg_profile_func_exit(void *function, void *site);

void __cyg_profile_func_enter(void *function, void *site)
{
	(void)function;
	truth[depth % DEPTH_MAX] = (uint64_t)(uintptr_t)site;
	__asm__ volatile("" ::: "memory");
	depth++;
}

void __cyg_profile_func_exit(void *function, void *site)
{
	(void)function, (void)site;
	depth--;
	__asm__ volatile("" ::: "memory");
}

/* ---- taking ---- */

static UNSEEN struct sample_event *add_event(uint16_t type, size_t len)
{
	size_t size = (sizeof(struct sample_event) + len + 7) & ~(size_t)7;
	struct sample_event *e = (struct sample_event *)(void *)(area.base + area.used);

	if (size > area.room - area.used)
		return NULL;
	area.used += size;
	*e = (struct sample_event){
		.size = (uint32_t)size, .type = type, .pid = 1, .tid = 1, .time = ++n_taken};
	return e;
}

static UNSEEN void on_tick(int number, siginfo_t *info, void *context)
{
	static const uint8_t order[UW_X86_COUNT] = {
		REG_RAX, REG_RBX, REG_RCX, REG_RDX,    REG_RSI,	   REG_RDI, REG_RBP,
		REG_RSP, REG_RIP, REG_EFL, REG_CSGSFS, REG_CSGSFS, REG_R8,  REG_R9,
		REG_R10, REG_R11, REG_R12, REG_R13,    REG_R14,	   REG_R15,
	};
	const greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t sp = (uint64_t)regs[REG_RSP], len = stack_end - sp;
	uint32_t n = depth;
	struct sample_event *e;

	(void)number, (void)info;
	if (sp >= stack_end || n > DEPTH_MAX)
		return;
	len = len > COPY_MAX ? COPY_MAX : len;
	e = add_event(SAMPLE_STACK, len);
	if (!e)
		return;
	e->flags = len == COPY_MAX;
	e->stack.len = (uint32_t)len;
	e->stack.n_regs = UW_X86_COUNT;
	for (int i = 0; i < UW_X86_COUNT; i++)
		e->stack.regs[i] = (uint64_t)regs[order[i]];
	memcpy(e->data, (const void *)(uintptr_t)sp, len);
	e = add_event(SAMPLE_TRUTH, n * sizeof(uint64_t));
	if (!e)
		return;
	e->truth.n = n;
	for (uint32_t i = 0; i < n; i++)
		((uint64_t *)(void *)e->data)[i] = truth[n - 1 - i];
}

static UNSEEN void add_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4400], path[4200], perms[8];
	unsigned long long start, end, offset;

	while (maps && fgets(line, sizeof(line), maps)) {
		struct sample_event *e;

		*path = 0;
		if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %4199s", &start, &end, perms, &offset,
			   path) < 4)
			continue;
		if (!strcmp(path, "[stack]"))
			stack_end = end;
		if (!strchr(perms, 'x'))
			continue;
		e = add_event(SAMPLE_MAP, strlen(path) + 1);
		if (!e)
			break;
		e->map.start = start;
		e->map.end = end;
		e->map.offset = offset;
		memcpy(e->data, path, strlen(path) + 1);
	}
	if (maps)
		fclose(maps);
}

static UNSEEN bool write_out(const char *path)
{
	uint64_t head[2] = {SAMPLES_MAGIC, area.used};
	FILE *out = fopen(path, "we");
	bool good = out && fwrite(head, sizeof(head), 1, out) == 1 &&
		    fwrite(area.base, area.used, 1, out) == 1;

	if (out && fclose(out))
		good = false;
	return good;
}

/* ---- work ---- */

static UNSEEN uint32_t pick(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

static NOINLINE uint64_t work(int left);

static NOINLINE uint64_t work_leaf(uint64_t x)
{
	for (uint64_t i = 0; i < 200 + (x & 1023); i++)
		x = x * 6364136223846793005ull + 1442695040888963407ull;
	return x;
}

static NOINLINE uint64_t work_big(int left)
{
	volatile uint8_t bytes[6000];
	uint64_t x;

	bytes[left] = (uint8_t)left;
	x = work(left);
	return x + bytes[left];
}

static NOINLINE uint64_t work_alloca(int left)
{
	uint8_t *bytes = alloca(pick(300) + 1);
	uint64_t x;

	bytes[0] = (uint8_t)left;
	x = work(left);
	return x + bytes[0];
}

static NOINLINE uint64_t work_aligned(int left)
{
	volatile uint64_t wide[4] __attribute__((aligned(64)));
	uint64_t x;

	wide[left & 3] = 1;
	x = work(left);
	return x + wide[left & 3];
}

static NOINLINE uint64_t work_aligned_alloca(int left)
{
	volatile uint64_t wide[4] __attribute__((aligned(64)));
	uint8_t *bytes = alloca(pick(200) + 1);
	uint64_t x;

	memset(bytes, left, 1);
	wide[left & 3] = bytes[0];
	x = work(left);
	return x + wide[left & 3];
}

static NOINLINE uint64_t work_saved(int a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
				    uint64_t f, uint64_t g, uint64_t h)
{
	uint64_t x = work(a), y = work_leaf(b + c), z = work_leaf(d ^ e);

	return x + y * f + z * g + h + (uint64_t)a + b + c + d + e;
}

static NOINLINE uint64_t work_variadic(int left, ...)
{
	va_list list;
	uint64_t x = 0;

	va_start(list, left);
	for (int i = 0; i < 3; i++)
		x += va_arg(list, uint64_t);
	va_end(list);
	x += work(left);
	return x;
}

static NOINLINE int work_compare(const void *a, const void *b)
{
	uint64_t x = work_leaf(*(const uint64_t *)a), y = work_leaf(*(const uint64_t *)b);

	return (x > y) - (x < y);
}

static NOINLINE uint64_t work_sort(int left)
{
	uint64_t numbers[40];

	for (int i = 0; i < 40; i++)
		numbers[i] = pick(1000) + (uint64_t)left;
	qsort(numbers, 40, sizeof(*numbers), work_compare);
	return numbers[0] + work(left);
}

static NOINLINE uint64_t work_branches(int left)
{
	if (left & 1) {
		uint64_t x = work(left) + work_leaf(7);

		return x;
	}
	if (left < 3)
		return work_leaf((uint64_t)left) +
		       1; /* an early way out, before registers are saved */
	return work(left) ^ work_leaf(9) ^ work_leaf(10);
}

static NOINLINE uint64_t work(int left)
{
	if (left <= 0)
		return work_leaf((uint64_t)left + 3) + 1;
	switch (pick(8)) {
	case 0:
		return work_big(left - 1) + 1;
	case 1:
		return work_alloca(left - 1) + 1;
	case 2:
		return work_aligned(left - 1) + 1;
	case 3:
		return work_aligned_alloca(left - 1) + 1;
	case 4:
		return work_saved(left - 1, 1, 2, 3, 4, 5, 6, 7) + 1;
	case 5:
		return work_variadic(left - 1, (uint64_t)1, (uint64_t)2, (uint64_t)3) + 1;
	case 6:
		return work_sort(left - 1) + 1;
	default:
		return work_branches(left - 1) + 1;
	}
}

static NOINLINE void work_round(void)
{
	program_sink += work((int)pick(40));
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_sigaction = on_tick, .sa_flags = SA_RESTART | SA_SIGINFO};
	struct itimerval timer = {.it_interval.tv_usec = EVERY_US, .it_value.tv_usec = EVERY_US},
			 off = {0};

	if (argc != 3) {
		fputs("usage: shadow SECONDS FILE\n", stderr);
		return 2;
	}
	program_start(argc, argv);
	area.room = AREA_BYTES;
	area.base = mmap(NULL, area.room, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area.base == MAP_FAILED)
		return 1;
	add_maps();
	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_PROF, &timer, NULL);
	while (program_running())
		work_round();
	setitimer(ITIMER_PROF, &off, NULL);
	return write_out(argv[2]) ? 0 : 1;
}
