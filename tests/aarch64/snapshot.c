/* snapshot.c - an aarch64 program that takes samples of itself and writes them in perf's file form.
 *
 *   snapshot FILE    FILE becomes a perf.data: a comm, the executable mappings, one sample a scene
 *
 * A sample is taken by a brk instruction: the SIGTRAP handler has every register and the stack as
 * they were, and goes on behind it.  So it can be anywhere: in a leaf, before the first store of a
 * function, in a signal handler.  It makes its system calls itself and needs no library; HOSTED
 * adds the scenes that go through one.
 *
 * tests/integration/aarch64.sh has the chain of each scene. */
#include <elf.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>
#ifdef HOSTED
#include <stdlib.h>
#include <string.h>
#endif

typedef uint64_t u64;
typedef uint32_t u32;

#define NOINLINE __attribute__((noinline, noclone))
#define SAMPLE_HERE() __asm__ volatile("brk #1" ::: "memory")
/* What stands behind a call keeps it from being a tail call. */
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

enum {
	SYS_openat = 56,
	SYS_close = 57,
	SYS_read = 63,
	SYS_write = 64,
	SYS_exit_group = 94,
	SYS_kill = 129,
	SYS_rt_sigaction = 134,
	SYS_getpid = 172,
	SIG_USR1 = 10,
	SIG_TRAP = 5,
	AT_CWD = -100,
	O_WRITE_NEW = 01 | 0100 | 01000,
};

static inline long call4(long number, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}

#ifndef HOSTED
void *memcpy(void *to, const void *from, size_t len);
void *memset(void *to, int byte, size_t len);

void *memcpy(void *to, const void *from, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((volatile char *)to)[i] = ((const char *)from)[i];
	return to;
}

void *memset(void *to, int byte, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((volatile char *)to)[i] = (char)byte;
	return to;
}
#endif

/* ---- the file ---- */

enum { FILE_MAX = 4 << 20, STACK_ROOM = 64000, REGS_MASK_BITS = 33 };

struct section {
	u64 offset, size;
};

static struct header {
	char magic[8];
	u64 size, attr_size;
	struct section attrs, data, event_types;
	u64 features[4];
	struct perf_event_attr attr; /* with its ids: none */
	struct section ids;
} head;

static _Alignas(8) unsigned char records[FILE_MAX];
static size_t n_bytes;
static u64 clock_ns = 1000000000;
static u32 pid;
static u64 stack_end;

/* A record's beginning, its end is the next one's beginning. */
static unsigned char *room(size_t len)
{
	unsigned char *at = records + n_bytes;

	if (len > sizeof(records) - n_bytes)
		call4(SYS_exit_group, 3, 0, 0, 0);
	n_bytes += len;
	return at;
}

static void put64(u64 value)
{
	memcpy(room(8), &value, 8);
}

static void put_two(u32 low, u32 high)
{
	put64(low | (u64)high << 32);
}

static size_t record_begin(u32 type, unsigned misc)
{
	put_two(type, misc);
	return n_bytes - 8;
}

static void record_end(size_t at)
{
	uint16_t size = (uint16_t)(n_bytes - at);

	memcpy(records + at + 6, &size, 2);
}

/* PERF_SAMPLE_TID, PERF_SAMPLE_TIME behind what is not a sample */
static void put_id(void)
{
	put_two(pid, pid);
	put64(clock_ns);
}

static void put_text(const char *text, size_t len)
{
	unsigned char *to = room((len + 8) & ~(size_t)7);

	memset(to, 0, (len + 8) & ~(size_t)7);
	memcpy(to, text, len);
}

static void put_comm(void)
{
	size_t at = record_begin(PERF_RECORD_COMM, 1 << 13);

	put_two(pid, pid);
	put_text("snapshot", 8);
	put_id();
	record_end(at);
}

static void put_sample(const u64 regs[REGS_MASK_BITS])
{
	size_t at = record_begin(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
	u64 sp = regs[31], len = stack_end - sp;

	if (len > STACK_ROOM)
		len = STACK_ROOM;
	len &= ~7ull;
	put64(regs[32]);
	put_two(pid, pid);
	put64(clock_ns += 1000000);
	put64(1000000);
	put64(PERF_SAMPLE_REGS_ABI_64);
	memcpy(room(REGS_MASK_BITS * 8), regs, REGS_MASK_BITS * 8);
	put64(len);
	memcpy(room(len), (const void *)sp, len);
	put64(len);
	record_end(at);
}

/* ---- /proc/self/maps ---- */

static u64 hex(const char **text)
{
	u64 value = 0;

	for (;; (*text)++) {
		char c = **text;

		if (c >= '0' && c <= '9')
			value = value << 4 | (u64)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (u64)(c - 'a' + 10);
		else
			return value;
	}
}

static u64 decimal(const char **text)
{
	u64 value = 0;

	while (**text >= '0' && **text <= '9')
		value = value * 10 + (u64)(*(*text)++ - '0');
	return value;
}

/* The program's own build id, out of its notes; @to as MMAP2 has it: length, 3 bytes, 20 bytes. */
extern const Elf64_Ehdr __ehdr_start;

static int own_build_id(unsigned char to[24])
{
	const unsigned char *base = (const unsigned char *)&__ehdr_start;
	const Elf64_Phdr *phdrs = (const Elf64_Phdr *)(base + __ehdr_start.e_phoff);

	memset(to, 0, 24);
	for (int i = 0; i < __ehdr_start.e_phnum; i++) {
		const Elf64_Nhdr *note = (const Elf64_Nhdr *)(base + phdrs[i].p_offset);

		if (phdrs[i].p_type != PT_NOTE || note->n_type != NT_GNU_BUILD_ID ||
		    note->n_namesz != 4 || note->n_descsz > 20)
			continue;
		to[0] = (unsigned char)note->n_descsz;
		memcpy(to + 4, (const unsigned char *)(note + 1) + 4, note->n_descsz);
		return 1;
	}
	return 0;
}

/* start-end rwxp offset major:minor inode   path */
static void put_mapping(const char *line, const char *end)
{
	u64 start, stop, offset, inode;
	unsigned char build_id[24];
	u32 major, minor;
	const char *rights;
	size_t at;
	int own;

	start = hex(&line);
	line++;
	stop = hex(&line);
	rights = ++line;
	line += 5;
	offset = hex(&line);
	line++;
	major = (u32)hex(&line);
	line++;
	minor = (u32)hex(&line);
	line++;
	inode = decimal(&line);
	while (line < end && *line == ' ')
		line++;
	if (start <= (u64)&start && (u64)&start < stop)
		stack_end = stop;
	if (rights[2] != 'x')
		return;
	own = start <= (u64)put_mapping && (u64)put_mapping < stop && own_build_id(build_id);
	at = record_begin(PERF_RECORD_MMAP2,
			  PERF_RECORD_MISC_USER | (own ? PERF_RECORD_MISC_MMAP_BUILD_ID : 0));
	put_two(pid, pid);
	put64(start);
	put64(stop - start);
	put64(offset);
	if (own) {
		memcpy(room(24), build_id, 24);
	} else {
		put_two(major, minor);
		put64(inode);
		put64(0); /* generation */
	}
	put_two(5, 2); /* PROT_READ | PROT_EXEC, MAP_PRIVATE */
	put_text(line, (size_t)(end - line));
	put_id();
	record_end(at);
}

static void put_mappings(void)
{
	static char text[65536];
	long fd = call4(SYS_openat, AT_CWD, (long)"/proc/self/maps", 0, 0), n, len = 0;
	const char *line = text;

	while ((n = call4(SYS_read, fd, (long)(text + len), (long)sizeof(text) - len, 0)) > 0)
		len += n;
	call4(SYS_close, fd, 0, 0, 0);
	for (long i = 0; i < len; i++) {
		if (text[i] != '\n')
			continue;
		put_mapping(line, text + i);
		line = text + i + 1;
	}
}

/* [header][attr][records][feature table: one][its string] */
static int file_write(const char *path)
{
	static const char arch[64] = "aarch64";
	struct section feature;
	u32 arch_len = sizeof(arch);
	long fd;

	memcpy(head.magic, "PERFILE2", 8);
	head.size = offsetof(struct header, attr);
	head.attr_size = sizeof(head.attr) + sizeof(head.ids);
	head.attrs = (struct section){head.size, head.attr_size};
	head.data = (struct section){sizeof(head), n_bytes};
	head.features[0] = 1 << 6; /* HEADER_ARCH */
	head.attr.size = sizeof(head.attr);
	head.attr.type = PERF_TYPE_SOFTWARE;
	head.attr.config = PERF_COUNT_SW_CPU_CLOCK;
	head.attr.sample_period = 1000000;
	head.attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
				PERF_SAMPLE_PERIOD | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	head.attr.sample_id_all = 1;
	head.attr.mmap = head.attr.mmap2 = head.attr.comm = head.attr.build_id = 1;
	head.attr.sample_regs_user = (1ull << REGS_MASK_BITS) - 1;
	head.attr.sample_stack_user = STACK_ROOM;
	feature = (struct section){sizeof(head) + n_bytes + sizeof(feature), 4 + sizeof(arch)};
	fd = call4(SYS_openat, AT_CWD, (long)path, O_WRITE_NEW, 0644);
	if (fd < 0)
		return 1;
	call4(SYS_write, fd, (long)&head, sizeof(head), 0);
	call4(SYS_write, fd, (long)records, (long)n_bytes, 0);
	call4(SYS_write, fd, (long)&feature, sizeof(feature), 0);
	call4(SYS_write, fd, (long)&arch_len, 4, 0);
	call4(SYS_write, fd, (long)arch, sizeof(arch), 0);
	return call4(SYS_close, fd, 0, 0, 0) < 0;
}

/* ---- signals: as the kernel has them (asm-generic/signal.h, arm64's asm/sigcontext.h) ---- */

struct kernel_action {
	void (*handler)(int, void *, void *);
	u64 flags;
	void (*restorer)(void);
	u64 mask;
};

struct kernel_context {
	u64 flags, link, stack[3], mask[16], pad; /* the registers are 16-aligned */
	u64 fault_address, regs[31], sp, pc;
};
_Static_assert(offsetof(struct kernel_context, regs) == 184, "arm64's asm/ucontext.h");

static void on_trap(int number, void *info, void *context)
{
	struct kernel_context *c = context;
	u64 regs[REGS_MASK_BITS];

	(void)number, (void)info;
	memcpy(regs, c->regs, sizeof(c->regs));
	regs[31] = c->sp;
	regs[32] = c->pc;
	put_sample(regs);
	c->pc += 4;
}

/* @restorer NULL: the kernel's own trampoline. */
static void handle(int number, void (*handler)(int, void *, void *), void (*restorer)(void))
{
	/* SIGINFO, NODEFER, RESTORER */
	u64 flags = 4 | 0x40000000 | (restorer ? 0x04000000 : 0);
	struct kernel_action action = {handler, flags, restorer, 0};

	call4(SYS_rt_sigaction, number, (long)&action, 0, 8);
}

/* ---- the scenes ---- */

static volatile u64 sink;
static volatile u64 zero; /* what the compiler cannot know */

/* Makes the compiler keep its frame and registers of its own. */
static NOINLINE u64 plain_inner(u64 a)
{
	SAMPLE_HERE();
	sink = a;
	return a + 1;
}

static NOINLINE u64 plain_outer(u64 a)
{
	u64 b = plain_inner(a) + plain_inner(a + zero);

	KEEP_FRAME();
	return b + a;
}

static NOINLINE u64 alloca_inner(volatile char *room_there)
{
	room_there[zero] = 1;
	SAMPLE_HERE();
	return (u64)room_there[zero];
}

static NOINLINE u64 alloca_outer(u64 n)
{
	volatile char *here = __builtin_alloca(n + zero);
	u64 value = alloca_inner(here);

	KEEP_FRAME();
	return value + (u64)here[n - 1];
}

static NOINLINE u64 big_inner(volatile u64 *array)
{
	SAMPLE_HERE();
	return array[zero];
}

static NOINLINE u64 big_frame(void)
{
	volatile u64 array[4200];
	u64 value;

	array[0] = 1;
	value = big_inner(array);
	KEEP_FRAME();
	return value + array[0];
}

static NOINLINE u64 recurse(u64 depth)
{
	u64 value;

	if (!depth) {
		SAMPLE_HERE();
		return zero;
	}
	value = recurse(depth - 1);
	KEEP_FRAME();
	return value + depth;
}

static NOINLINE u64 tail_target(u64 a)
{
	SAMPLE_HERE();
	return a * 3;
}

static NOINLINE u64 tail_jumper(u64 a)
{
	return tail_target(a + zero);
}

static NOINLINE u64 tail_caller(u64 a)
{
	u64 value = tail_jumper(a);

	KEEP_FRAME();
	return value + a;
}

/* Every callee-saved register, of both kinds. */
static NOINLINE u64 saves_all(u64 a)
{
	__asm__ volatile("" ::
				 : "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
				   "x28", "d8", "d9", "d10", "d11", "d12", "d13", "d14", "d15");
	a = plain_inner(a);
	KEEP_FRAME();
	return a + 1;
}

static NOINLINE void handler_inner(void)
{
	SAMPLE_HERE();
}

static NOINLINE void handler(int number, void *info, void *context)
{
	(void)number, (void)info, (void)context;
	handler_inner();
	KEEP_FRAME();
}

/* The system call stands in a function without a frame: its return address is in x30 only. */
static NOINLINE long signal_leaf(long number)
{
	return call4(SYS_kill, pid, number, 0, 0);
}

static NOINLINE long signal_outer(void)
{
	long value = signal_leaf(SIG_USR1);

	KEEP_FRAME();
	return value + 1;
}

/* Code by hand: at every edge of a frame, and with no CFI. */
__asm__(".text\n"
	".type edges, %function\n"
	".globl edges\n"
	"edges:\n"
	".cfi_startproc\n"
	"	hint #34\n" /* bti c */
	"	brk #1\n"
	"	stp x29, x30, [sp, #-32]!\n"
	".cfi_def_cfa_offset 32\n"
	".cfi_offset x29, -32\n"
	".cfi_offset x30, -24\n"
	"	brk #1\n"
	"	mov x29, sp\n"
	".cfi_def_cfa_register x29\n"
	"	brk #1\n"
	"	mov x30, #1\n"
	"	brk #1\n"
	"	ldp x29, x30, [sp], #32\n"
	".cfi_def_cfa sp, 0\n"
	".cfi_restore x29\n"
	".cfi_restore x30\n"
	"	brk #1\n"
	"	ret\n"
	".cfi_endproc\n"
	".size edges, . - edges\n"

	/* x29 and x30 far from each other, the CFA in another register */
	".type apart, %function\n"
	".globl apart\n"
	"apart:\n"
	".cfi_startproc\n"
	"	hint #34\n"
	"	sub sp, sp, #64\n"
	".cfi_def_cfa_offset 64\n"
	"	str x30, [sp, #0]\n"
	"	str x29, [sp, #40]\n"
	"	str x19, [sp, #48]\n"
	".cfi_offset x30, -64\n"
	".cfi_offset x29, -24\n"
	".cfi_offset x19, -16\n"
	"	mov x29, #7\n"
	"	add x19, sp, #64\n"
	".cfi_def_cfa x19, 0\n"
	"	mov x0, #5\n"
	"	bl plain_inner\n"
	".cfi_def_cfa sp, 64\n"
	"	ldr x19, [sp, #48]\n"
	"	ldr x29, [sp, #40]\n"
	"	ldr x30, [sp, #0]\n"
	"	add sp, sp, #64\n"
	".cfi_def_cfa_offset 0\n"
	".cfi_restore x19\n"
	".cfi_restore x29\n"
	".cfi_restore x30\n"
	"	ret\n"
	".cfi_endproc\n"
	".size apart, . - apart\n"

	/* without CFI: a frame record */
	".type unsaid, %function\n"
	".globl unsaid\n"
	"unsaid:\n"
	"	hint #34\n"
	"	stp x29, x30, [sp, #-16]!\n"
	"	mov x29, sp\n"
	"	mov x0, #6\n"
	"	bl plain_inner\n"
	"	ldp x29, x30, [sp], #16\n"
	"	ret\n"
	".size unsaid, . - unsaid\n"

	/* without CFI: a leaf */
	".type unsaid_leaf, %function\n"
	".globl unsaid_leaf\n"
	"unsaid_leaf:\n"
	"	hint #34\n"
	"	brk #1\n"
	"	ret\n"
	".size unsaid_leaf, . - unsaid_leaf\n");

/* Signal trampolines: as the vDSO has it, CFI and all (arch/arm64/kernel/vdso/sigreturn.S), and as
 * musl has it, without. */
__asm__(".text\n"
	".cfi_startproc\n"
	".cfi_signal_frame\n"
	".cfi_def_cfa x29, 0\n"
	".cfi_offset x29, 0\n"
	".cfi_offset x30, 8\n"
	"	nop\n"
	".type trampoline, %function\n"
	".globl trampoline\n"
	"trampoline:\n"
	"	mov x8, #139\n"
	"	svc #0\n"
	".cfi_endproc\n"
	".size trampoline, . - trampoline\n"
	"	nop\n"
	".type trampoline_unsaid, %function\n"
	".globl trampoline_unsaid\n"
	"trampoline_unsaid:\n"
	"	mov x8, #139\n"
	"	svc #0\n"
	".size trampoline_unsaid, . - trampoline_unsaid\n");

void trampoline(void);
void trampoline_unsaid(void);
void edges(void);
void apart(void);
void unsaid(void);
void unsaid_leaf(void);

/* A frame record of its own, so that the chain of records leads on from code without CFI. */
static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer"))) void
by_hand(void (*function)(void))
{
	function();
	KEEP_FRAME();
}

#ifdef HOSTED
static int compare(const void *a, const void *b)
{
	static int taken;

	if (!taken++)
		SAMPLE_HERE();
	return *(const int *)a - *(const int *)b;
}

static NOINLINE void sorts(void)
{
	int numbers[] = {5, 3, 9, 1};

	qsort(numbers, 4, sizeof(int), compare);
	KEEP_FRAME();
}

/* As libgcc's _Unwind_Resume() goes to a landing pad; here that is where it was called from. */
#define SAVED(first, second, at)                            \
	"	stp " first ", " second ", [sp, #" at "]\n" \
	".cfi_rel_offset " first ", " at "\n"               \
	".cfi_rel_offset " second ", " at " + 8\n"
#define GIVEN(first, second, at) "	ldp " first ", " second ", [sp, #" at "]\n"
#define RESTORED(first, second) ".cfi_restore " first "\n.cfi_restore " second "\n"
__asm__(".text\n"
	".type lands, %function\n"
	"lands:\n"
	".cfi_startproc\n"
	"	hint #34\n"
	"	sub sp, sp, #160\n"
	".cfi_def_cfa_offset 160\n" SAVED("x29", "x30", "0") SAVED("x0", "x1", "16") SAVED(
		"x2", "x3", "32") SAVED("x19", "x20",
					"48") SAVED("x21", "x22",
						    "64") SAVED("x23", "x24",
								"80") SAVED("x25", "x26", "96")
		SAVED("x27", "x28",
		      "112") "	mov x4, #0\n"
			     "	brk #1\n" /* nothing is written over yet, by its place */
			     "	.rept 24\n"
			     "	nop\n"
			     "	.endr\n"
			     "	brk #1\n" GIVEN("x29", "x30", "0") GIVEN("x0", "x1", "16") GIVEN(
				     "x2", "x3", "32") GIVEN("x19", "x20", "48") GIVEN("x21", "x22",
										       "64")
				     GIVEN("x23", "x24", "80") GIVEN("x25", "x26", "96") GIVEN(
					     "x27", "x28",
					     "112") "	add sp, sp, #160\n"
						    ".cfi_def_cfa_offset 0\n" RESTORED("x29", "x30")
							    RESTORED("x0", "x1") RESTORED(
								    "x2", "x3") RESTORED("x19",
											 "x20")
								    RESTORED("x21", "x22") RESTORED(
									    "x23",
									    "x24") RESTORED("x25",
											    "x26")
									    RESTORED("x27",
										     "x28") "	brk"
											    " #1\n"
											    "	add"
											    " sp, "
											    "sp, "
											    "x4\n"
											    "	ret"
											    "\n"
											    ".cfi_"
											    "endpro"
											    "c\n"
											    ".size "
											    "lands,"
											    " . "
											    "- "
											    "lands"
											    "\n");
void lands(void);

/* The same as the compiler makes it. */
__attribute__((noinline, noclone, target("branch-protection=none"))) static void goes_on(void)
{
	void *to = __builtin_return_address(0);

	__builtin_unwind_init();
	SAMPLE_HERE();
	__asm__ volatile(".rept 32\n nop\n .endr" ::: "memory");
	SAMPLE_HERE();
	__builtin_eh_return(0, to);
}
#endif

static NOINLINE u64 scenes(void)
{
	u64 sum = plain_outer(1); /* two samples */

	sum += alloca_outer(1000);
	sum += big_frame();
	sum += recurse(40);
	sum += tail_caller(2);
	sum += saves_all(3);
	for (unsigned i = 0; i < 3; i++) { /* the kernel's trampoline, and two of our own */
		handle(SIG_USR1, handler, i == 0 ? NULL : i == 1 ? trampoline : trampoline_unsaid);
		sum += (u64)signal_outer();
	}
	by_hand(edges); /* five samples */
	by_hand(apart);
	by_hand(unsaid);
	by_hand(unsaid_leaf);
#ifdef HOSTED
	sorts();
	by_hand(lands);	  /* three samples */
	by_hand(goes_on); /* two */
#endif
	KEEP_FRAME();
	return sum;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	pid = (u32)call4(SYS_getpid, 0, 0, 0, 0);
	put_comm();
	put_mappings();
	handle(SIG_TRAP, on_trap, NULL);
	sink = scenes();
	return file_write(argv[1]);
}

#ifndef HOSTED
void start_c(long *stack);

__attribute__((noreturn)) void start_c(long *stack)
{
	call4(SYS_exit_group, main((int)stack[0], (char **)(stack + 1)), 0, 0, 0);
	__builtin_unreachable();
}

__asm__(".text\n"
	".type _start, %function\n"
	".globl _start\n"
	"_start:\n"
	".cfi_startproc\n"
	".cfi_undefined x30\n"
	"	mov x29, #0\n"
	"	mov x30, #0\n"
	"	mov x0, sp\n"
	"	bl start_c\n"
	".cfi_endproc\n"
	".size _start, . - _start\n");
#endif
