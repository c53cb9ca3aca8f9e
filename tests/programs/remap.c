/* remap.c - a program that moves its own text into anonymous memory, as tools do for huge pages:
 * /proc/PID/maps has no file for it any more.
 *
 * main > remapped_work > remapped_inner > burn */
#include <link.h>
#include <sys/mman.h>

#include "program.h"

static NOINLINE void remapped_inner(uint64_t n)
{
	burn(n);
	NOT_LAST;
}

static NOINLINE void remapped_work(void)
{
	remapped_inner(100);
	NOT_LAST;
}

/* Of the program itself, which comes first. */
static int remap(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size, (void)data;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t start = (info->dlpi_addr + ph->p_vaddr) & ~4095ul;
		size_t len = (info->dlpi_addr + ph->p_vaddr + ph->p_memsz - start + 4095) & ~4095ul;
		void *copy;

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X))
			continue;
		copy = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (copy == MAP_FAILED)
			return 1;
		memcpy(copy, (void *)start, len);
		if (mprotect(copy, len, PROT_READ | PROT_EXEC) ||
		    mremap(copy, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) ==
			    MAP_FAILED)
			return 1;
		return 2;
	}
	return 1;
}

int main(int argc, char **argv)
{
	program_start(argc, argv);
	if (dl_iterate_phdr(remap, NULL) != 2)
		return 1;
	while (program_running())
		remapped_work();
	return 0;
}
