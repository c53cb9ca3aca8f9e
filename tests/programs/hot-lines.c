/* hot-lines.c - lines of different cost in one function, some lines of an inlined one.
 * main > work > (mix inlined) */
#include "program.h"

static inline __attribute__((always_inline)) uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	x ^= x >> 33;
	return x % 1000003;
}

NOINLINE uint64_t work(uint64_t *table, uint64_t from);

uint64_t work(uint64_t *table, uint64_t from)
{
	uint64_t sum = 0;

	for (uint64_t i = from; i < from + 100000; i++) {
		sum += mix(i);
		table[sum & 4095] += i;
		if (table[i & 4095] & 1)
			sum ^= i / 7;
	}
	return sum;
}

int main(int argc, char **argv)
{
	static uint64_t table[4096];

	program_start(argc, argv);
	for (uint64_t i = 0; program_running(); i += 100000)
		program_sink += work(table, i);
	return 0;
}
