/* steps-jit.c - code in anonymous memory with the .eh_frame that describes all of it next to it, which
 * no process has registered: as a JIT leaves it.  For diff-steps.
 *
 *   steps-jit CASE      code, zeros, number: what is of interest runs between two traps
 *   steps-jit proof     exit 0: libgcc unwinds that code once that .eh_frame is registered, and not
 *                       before
 *
 * The code is this program's own, copied.  What was copied lies as far apart as it did, so the
 * .eh_frame that the compiler wrote is as true of the copy; addresses in it are relative.  Built
 * with frame pointers and without. */
#include <link.h>
#include <sys/mman.h>
#include <unwind.h>

#include "program.h"

#define TRAP() __asm__ volatile("int3")

/* libgcc's: they stand in no header. */
void __register_frame(void *eh_frame), __deregister_frame(void *eh_frame);

typedef uint64_t back_fn(uint64_t x);
typedef uint64_t code_fn(uint64_t x, back_fn *back);

/* ---- what is copied: it calls itself and @back ---- */

static NOINLINE uint64_t code_leaf(uint64_t x)
{
	return x * 6364136223846793005ull + 1;
}

static NOINLINE uint64_t code_inner(uint64_t x, back_fn *back)
{
	volatile uint64_t words[4];

	words[x & 3] = code_leaf(x);
	return back(x) + words[x & 3];
}

static NOINLINE uint64_t code_outer(uint64_t x, back_fn *back)
{
	uint64_t y = code_inner(x, back);

	return code_inner(y, back) + back(y) * x;
}

/* No frame pointer: rbp is what @value makes it. */
code_fn code_zeros, code_number;
#define PUSHED(reg) "push " reg "\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset " reg ", 0\n"
#define POPPED(reg) "pop " reg "\n.cfi_adjust_cfa_offset -8\n.cfi_restore " reg "\n"
#define CODE(name, value)                                                                        \
	__asm__(".text\n.globl " name "\n.type " name ", @function\n" name                       \
		":\n.cfi_startproc\n" PUSHED("%rbp") PUSHED(                                     \
			"%rbx") "sub $40, %rsp\n.cfi_adjust_cfa_offset 40\n"                     \
				"mov %rsi, %rbx\n" value "call *%rbx\n"                          \
				"add $40, %rsp\n.cfi_adjust_cfa_offset -40\n" POPPED("%rbx")     \
					POPPED("%rbp") "ret\n"                                   \
						       ".cfi_endproc\n.size " name ", . - " name \
						       "\n")
/* The words that a chain of frame pointers would end with. */
CODE("code_zeros", "movq $0, 8(%rsp)\nmovq $0, 16(%rsp)\nlea 8(%rsp), %rbp\n");
CODE("code_number", "mov $12345, %ebp\n");

/* ---- the copy ---- */

struct image {
	uint8_t *base, *copy;
	uint64_t eh_frame_hdr;
};

static int image_copy(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct image *image = arg;
	uint64_t end = 0;

	(void)size;
	image->base = (uint8_t *)info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && p->p_vaddr + p->p_memsz > end)
			end = p->p_vaddr + p->p_memsz;
		if (p->p_type == PT_GNU_EH_FRAME)
			image->eh_frame_hdr = p->p_vaddr;
	}
	image->copy = mmap(NULL, end, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (image->copy == MAP_FAILED)
		exit(1);
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && !(p->p_flags & PF_W))
			memcpy(image->copy + p->p_vaddr, image->base + p->p_vaddr, p->p_filesz);
	}
	memset(image->copy, 0, sizeof(ElfW(Ehdr))); /* code and its .eh_frame, no ELF image */
	return 1;
}

static code_fn *image_code(const struct image *image, code_fn *code)
{
	return (code_fn *)(uintptr_t)(image->copy + ((uint8_t *)(uintptr_t)code - image->base));
}

/* [version][encodings: pcrel sdata4, ...][.eh_frame, from here] */
static uint8_t *image_eh_frame(const struct image *image)
{
	uint8_t *hdr = image->copy + image->eh_frame_hdr;
	int32_t distance;

	if (hdr[0] != 1 || hdr[1] != 0x1b)
		exit(1);
	memcpy(&distance, hdr + 4, sizeof(distance));
	return hdr + 4 + distance;
}

/* ---- from outside of it ---- */

static NOINLINE uint64_t back_inner(uint64_t x)
{
	return x ^ program_sink;
}

static NOINLINE uint64_t back(uint64_t x)
{
	program_sink += back_inner(x);
	return back_inner(x + 1) + 1;
}

static NOINLINE uint64_t call_code(code_fn *code, uint64_t x, back_fn *to)
{
	uint64_t y = code(x, to);

	return y + 1;
}

/* ---- proof ---- */

enum { SEEN = 32 };
struct proof {
	uintptr_t functions[SEEN]; /* that libgcc has found, innermost first */
	size_t n;
	uintptr_t inner, outer;
	int seen; /* inner, outer and call_code one behind the other */
};
static struct proof proof;

static _Unwind_Reason_Code see(struct _Unwind_Context *context, void *arg)
{
	(void)arg;
	if (proof.n == SEEN)
		return _URC_END_OF_STACK;
	proof.functions[proof.n++] = (uintptr_t)_Unwind_FindEnclosingFunction(
		(void *)(uintptr_t)(_Unwind_GetIP(context) - 1));
	return _URC_NO_REASON;
}

static NOINLINE uint64_t look(uint64_t x)
{
	proof.n = 0;
	_Unwind_Backtrace(see, NULL);
	for (size_t i = 0; i + 2 < proof.n; i++)
		proof.seen |= proof.functions[i] == proof.inner &&
			      proof.functions[i + 1] == proof.outer &&
			      proof.functions[i + 2] == (uintptr_t)call_code;
	return x;
}

static int prove(const struct image *image)
{
	code_fn *outer = image_code(image, code_outer);
	uint8_t *eh_frame = image_eh_frame(image);
	int before;

	proof.outer = (uintptr_t)outer;
	proof.inner = (uintptr_t)image_code(image, code_inner);
	call_code(outer, 5, look);
	before = proof.seen;
	__register_frame(eh_frame);
	call_code(outer, 5, look);
	__deregister_frame(eh_frame);
	return before || !proof.seen;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		code_fn *code;
	} cases[] = {
		{"code", code_outer},
		{"zeros", code_zeros},
		{"number", code_number},
	};
	struct image image = {0};

	dl_iterate_phdr(image_copy, &image);
	if (argc > 1 && !strcmp(argv[1], "proof"))
		return prove(&image);
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(*cases); i++) {
		if (strcmp(argv[1], cases[i].name) != 0)
			continue;
		TRAP();
		call_code(image_code(&image, cases[i].code), 5, back);
		TRAP();
		return 0;
	}
	return 2;
}
