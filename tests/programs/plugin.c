/* plugin.c - the shared object plugin.so of plt.c and dlopen.c.
 * plugin_work > plugin_inner > (the callback);  plugin_tiny: a few instructions */
#include <stdint.h>

uint64_t plugin_tiny(uint64_t x);
uint64_t plugin_work(uint64_t (*callback)(uint64_t), uint64_t n);

uint64_t plugin_tiny(uint64_t x)
{
	return x * 3 + 1;
}

static __attribute__((noinline, noclone)) uint64_t plugin_inner(uint64_t (*callback)(uint64_t),
								uint64_t n)
{
	uint64_t x = callback(n);

	__asm__ volatile("" ::: "memory");
	return x + 1;
}

uint64_t plugin_work(uint64_t (*callback)(uint64_t), uint64_t n)
{
	uint64_t x = 0;

	for (uint64_t i = 0; i < n; i++)
		x += plugin_inner(callback, i) + plugin_tiny(i);
	return x;
}
