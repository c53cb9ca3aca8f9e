/* many-maps.c - a process with as many mappings as the kernel allows one, half of them executable:
 * many-maps SECONDS.  It prints how many.  main > among_many > burn */
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

enum { PAGE = 4096, MOST = 1 << 16, SPARE = 16 };

NOINLINE void among_many(void)
{
	while (program_running())
		burn(100);
	NOT_LAST;
}

int main(int argc, char **argv)
{
	uint8_t *area = mmap(NULL, (size_t)MOST * PAGE, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t n = 0;

	program_start(argc, argv);
	if (area == MAP_FAILED)
		return 1;
	/* Every second page another than its neighbours: two mappings each. */
	while (2 * n < MOST && mprotect(area + 2 * n * PAGE, PAGE, PROT_READ | PROT_EXEC) == 0)
		n++;
	for (size_t i = 0; i < SPARE && i < n; i++) /* room for what libraries still do */
		(void)mprotect(area + 2 * i * PAGE, PAGE, PROT_NONE);
	printf("%zu\n", 2 * (n - SPARE));
	fflush(stdout);
	among_many();
	return 0;
}
