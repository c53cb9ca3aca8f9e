/* plt.c - calls through the PLT, bound when first called; many samples stand in the PLT's own code.
 * main > call_through_plt > plugin_tiny   (plugin_tiny in plugin.so, linked) */
#include "program.h"

uint64_t plugin_tiny(uint64_t x);

static NOINLINE uint64_t call_through_plt(uint64_t x)
{
	for (int i = 0; i < 100000; i++)
		x = plugin_tiny(x);
	return x;
}

int main(int argc, char **argv)
{
	program_start(argc, argv);
	while (program_running())
		program_sink += call_through_plt(program_sink);
	return 0;
}
