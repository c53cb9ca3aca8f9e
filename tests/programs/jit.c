/* jit.c - machine code in anonymous memory, without unwind information, that keeps a frame pointer,
 * named in /tmp/perf-PID.map as jitted_function. main > call_jitted > jitted_function >
 * jit_callback > burn */
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

static NOINLINE uint64_t jit_callback(uint64_t n)
{
	uint64_t x = burn(n);

	NOT_LAST;
	return x + n;
}

static NOINLINE uint64_t call_jitted(uint64_t (*jitted)(uint64_t (*)(uint64_t), uint64_t),
				     uint64_t n)
{
	uint64_t x = jitted(jit_callback, n);

	NOT_LAST;
	return x + 1;
}

int main(int argc, char **argv)
{
	static const uint8_t code[] = {
		0x55,			/* push %rbp */
		0x48, 0x89, 0xe5,	/* mov %rsp, %rbp */
		0x48, 0x83, 0xec, 0x40, /* sub $64, %rsp */
		0x48, 0x89, 0xf8,	/* mov %rdi, %rax */
		0x48, 0x89, 0xf7,	/* mov %rsi, %rdi */
		0xff, 0xd0,		/* call *%rax */
		0xc9,			/* leave */
		0xc3,			/* ret */
	};
	uint8_t *area =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[64];
	FILE *map;

	program_start(argc, argv);
	if (area == MAP_FAILED)
		return 1;
	memcpy(area, code, sizeof(code));
	if (mprotect(area, 4096, PROT_READ | PROT_EXEC))
		return 1;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "we");
	if (map) {
		fprintf(map, "%llx %zx jitted_function\n", (unsigned long long)(uintptr_t)area,
			sizeof(code));
		fclose(map);
	}
	while (program_running())
		call_jitted((uint64_t(*)(uint64_t(*)(uint64_t), uint64_t))(uintptr_t)area, 100);
	unlink(path);
	return 0;
}
