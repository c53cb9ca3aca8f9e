/* jitted.c - code in anonymous memory that a jitdump (jit-PID.dump in the folder of the second argument) describes.  It keeps no
 * frame pointer and jumps where only the dump's unwinding information shows.  Four turns of equal CPU time:
 *
 *     main > turn > first > burn      at one place
 *     main > turn > second > burn     loaded over first
 *     main > turn > second > burn     moved to another place
 *     main > turn > third > burn      loaded where first was, lines 7 and 9 of third.src
 *
 * With a third argument, ms: other code is loaded at one place each time that so much CPU time has passed.
 *
 *     main > turn > even > even_leaf > burn
 *     main > turn > odd > odd_leaf > burn
 *
 * A fourth one is `tsc`: the dump has times of the processor's counter, with the flag in its header for that; or a number: so many other functions
 * are in the dump before. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

enum { LOAD, MOVE, DEBUG, CLOSE, UNWINDING, SIZE = 33, CALL = 18 };

static const uint8_t code[SIZE] = {
	0x55,				 /* push %rbp */
	0x48, 0x83, 0xec, 0x48,		 /* sub $72, %rsp */
	0xbd, 0x77, 0,	  0,	0,	 /* mov $0x77, %ebp */
	0x48, 0x89, 0xf8,		 /* mov %rdi, %rax */
	0x48, 0x89, 0xf7,		 /* mov %rsi, %rdi */
	0xff, 0xd0,			 /* call *%rax */
	0x48, 0x8d, 0x0d, 2,	0, 0, 0, /* lea 2(%rip), %rcx */
	0xff, 0xe1,			 /* jmp *%rcx */
	0x48, 0x83, 0xc4, 0x48,		 /* add $72, %rsp */
	0x5d,				 /* pop %rbp */
	0xc3,				 /* ret */
};

/* A CIE and an FDE; the FDE's address is relative to its place, behind the code. */
static const uint8_t eh_frame[] = {
	20,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	1,
	'z',
	'R',
	0,
	1,
	0x78,
	16,
	1,
	0x1b, /* CIE */
	0x0c,
	7,
	8,
	0x90,
	1,
	0,
	0,
	/* The FDE: 28 bytes behind its length; begin = -(40 + 24 + 8). */
	32,
	0,
	0,
	0,
	28,
	0,
	0,
	0,
	0xb8,
	0xff,
	0xff,
	0xff,
	SIZE,
	0,
	0,
	0,
	0,
	0x41,
	0x0e,
	16,
	0x86,
	2, /* behind the push */
	0x44,
	0x0e,
	88, /* behind the sub */
	0x5a,
	0x0e,
	16,
	0x41,
	0x0e,
	8,
	0,
	0,
	0,
	0,
	0,
};

static int dump;
static bool by_counter;	 /* times of the processor's */
static uint64_t n_loads; /* each load has a number of its own */

static void put(const void *data, size_t len)
{
	if (write(dump, data, len) != (ssize_t)len)
		_exit(1);
}

static void put_record(uint32_t id, const void *fixed, size_t fixed_len, const void *more,
		       size_t more_len)
{
	struct {
		uint32_t id, size;
		uint64_t time;
	} head = {id, (uint32_t)(16 + fixed_len + more_len), 0};
	struct timespec now;
	uint8_t record[256];

	clock_gettime(CLOCK_MONOTONIC, &now);
#ifdef __x86_64__
	if (by_counter)
		head.time = __builtin_ia32_rdtsc();
	else
#endif
		head.time = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	memcpy(record, &head, 16);
	memcpy(record + 16, fixed, fixed_len);
	memcpy(record + 16 + fixed_len, more, more_len);
	put(record, head.size);
}

static void put_load(const char *name, void *at)
{
	const uint64_t address = (uint64_t)(uintptr_t)at;
	const uint64_t unwinding[] = {sizeof(eh_frame), 0, sizeof(eh_frame)};
	const uint64_t load[] = {(uint64_t)getpid() << 32 | (uint32_t)getpid(), address, address,
				 SIZE, ++n_loads};
	char more[64] = {0};

	put_record(UNWINDING, unwinding, sizeof(unwinding), eh_frame, sizeof(eh_frame));
	strcpy(more, name);
	memcpy(more + strlen(name) + 1, code, SIZE);
	put_record(LOAD, load, sizeof(load), more, strlen(name) + 1 + SIZE);
}

static void put_move(void *from, void *to)
{
	const uint64_t move[] = {(uint64_t)getpid() << 32 | (uint32_t)getpid(),
				 (uint64_t)(uintptr_t)to,
				 (uint64_t)(uintptr_t)from,
				 (uint64_t)(uintptr_t)to,
				 SIZE,
				 n_loads};

	put_record(MOVE, move, sizeof(move), "", 0);
}

static void put_lines(void *at)
{
	const uint64_t address = (uint64_t)(uintptr_t)at, fixed[] = {address, 2, address, 7};
	uint8_t more[64] = "third.src";
	const uint64_t second = address + CALL - 1, line = 9;

	memcpy(more + 10, &second, 8);
	memcpy(more + 18, &line, 8);
	memcpy(more + 26, "\xff", 2);
	put_record(DEBUG, fixed, sizeof(fixed), more, 28);
}

static double cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

typedef uint64_t leaf(uint64_t);
typedef uint64_t jitted(leaf *, uint64_t);

static NOINLINE uint64_t even_leaf(uint64_t rounds)
{
	uint64_t x = burn(rounds);

	NOT_LAST;
	return x;
}

static NOINLINE uint64_t odd_leaf(uint64_t rounds)
{
	uint64_t x = burn(rounds + 1);

	NOT_LAST;
	return x;
}

static NOINLINE uint64_t turn(void *at, leaf *calls, double until)
{
	uint64_t x = 0;

	while (cpu_now() < until)
		x += ((jitted *)(uintptr_t)at)(calls, 100);
	NOT_LAST;
	return x;
}

static void begin(const char *folder)
{
	const uint32_t header[10] = {0x4a695444,	 1, 40, 62,	   0,
				     (uint32_t)getpid(), 0, 0,	by_counter};
	char path[256];

	snprintf(path, sizeof(path), "%s/jit-%d.dump", folder, (int)getpid());
	dump = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (dump < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, dump, 0) == MAP_FAILED)
		_exit(1);
	put(header, sizeof(header));
}

static void reload(void *area, double until, double each)
{
	double next = cpu_now();

	for (bool odd = false; next < until; odd = !odd) {
		put_load(odd ? "odd" : "even", area);
		next += each;
		turn(area, odd ? odd_leaf : even_leaf, next);
	}
}

static void load_others(int n)
{
	char name[32];
	char *area = n ? mmap(NULL, (size_t)n * 64, PROT_READ | PROT_WRITE | PROT_EXEC,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
		       : NULL;

	for (int i = 0; i < n && area != MAP_FAILED; i++) {
		snprintf(name, sizeof(name), "other_function_%d", i);
		put_load(name, area + (size_t)i * 64);
	}
}

int main(int argc, char **argv)
{
	const char *fourth = argc > 4 ? argv[4] : "";
	double each = (argc > 1 ? atof(argv[1]) : 2) / 4;
	uint8_t *area = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		return 1;
	by_counter = !strcmp(fourth, "tsc");
	begin(argc > 2 ? argv[2] : ".");
	memcpy(area, code, SIZE);
	if (argc > 3) {
		load_others(atoi(fourth));
		reload(area, 4 * each, atof(argv[3]) / 1000);
		return 0;
	}
	put_load("first", area);
	turn(area, burn, each);
	put_load("second", area);
	turn(area, burn, 2 * each);
	memcpy(area + 4096, code, SIZE);
	put_move(area, area + 4096);
	turn(area + 4096, burn, 3 * each);
	put_lines(area);
	put_load("third", area);
	turn(area, burn, 4 * each);
	put_record(CLOSE, "", 0, "", 0);
	return 0;
}
