/* qsort.c - libc between two functions of the program.
 * main > sort_numbers > (libc's qsort, several frames) > compare_numbers > compare_work */
#include "program.h"

static NOINLINE uint64_t compare_work(uint64_t x)
{
	for (int i = 0; i < 40; i++)
		x = x * 2862933555777941757ull + 3037000493ull;
	return x;
}

static NOINLINE int compare_numbers(const void *a, const void *b)
{
	uint64_t x = compare_work(*(const uint64_t *)a), y = compare_work(*(const uint64_t *)b);

	return (x > y) - (x < y);
}

static NOINLINE void sort_numbers(uint64_t *numbers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		numbers[i] = i * 7919 % n;
	qsort(numbers, n, sizeof(*numbers), compare_numbers);
	NOT_LAST;
}

int main(int argc, char **argv)
{
	static uint64_t numbers[2000];

	program_start(argc, argv);
	while (program_running())
		sort_numbers(numbers, sizeof(numbers) / sizeof(numbers[0]));
	return 0;
}
