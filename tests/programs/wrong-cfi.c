/* wrong-cfi.c - an assembler function that keeps a frame pointer, with CFI that places the return address into its locals, which hold
 * text.  Only the chain of frame pointers leads to the caller.  After 0.1 s of good work:
 * main > good_work > burn   main > wrong_caller > wrong_frame   main > wrong_caller > wrong_frame > burn */
#include "program.h"

uint64_t wrong_frame(uint64_t rounds, uint64_t (*work)(uint64_t));

__asm__(".text\n"
	".globl wrong_frame\n"
	".type wrong_frame, @function\n"
	"wrong_frame:\n"
	"	.cfi_startproc\n"
	"	push %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset %rbp, -16\n"
	"	mov %rsp, %rbp\n"
	"	sub $64, %rsp\n"
	"	.cfi_def_cfa_offset 48\n" /* 80 */
	"	movabs $0x6c61636f6c206120, %rax\n"
	"	mov %rax, (%rsp)\n"
	"	mov %rax, 8(%rsp)\n"
	"	mov %rax, 16(%rsp)\n"
	"	mov %rax, 24(%rsp)\n"
	"	mov %rax, 32(%rsp)\n"
	"	mov %rax, 40(%rsp)\n"
	"	imul $100, %rdi, %rcx\n"
	"1:	imul $17, %rax, %rax\n"
	"	dec %rcx\n"
	"	jnz 1b\n"
	"	call *%rsi\n"
	"	leave\n"
	"	.cfi_def_cfa_offset 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size wrong_frame, . - wrong_frame\n");

static NOINLINE uint64_t good_work(void)
{
	uint64_t y = burn(20);

	NOT_LAST;
	return y + 1;
}

static NOINLINE uint64_t wrong_caller(void)
{
	uint64_t y = wrong_frame(20, burn);

	NOT_LAST;
	return y + 1;
}

int main(int argc, char **argv)
{
	program_start(argc, argv);
	for (double end = program_now() + 0.1; program_now() < end;)
		good_work();
	while (program_running())
		wrong_caller();
	return 0;
}
