/* inlined-cxx.cc - functions of the standard library inlined into each other, several deep, with real calls among them.
 * main > fill_table, count_even (its lambda inlined), sort_table > std::sort's functions, most of them inlined */
#include <algorithm>
#include <map>
#include <vector>

#include "program.h"

NOINLINE void fill_table(std::vector<unsigned> &table);
NOINLINE long count_even(const std::vector<unsigned> &table);
NOINLINE long count_values(const std::vector<unsigned> &table);
NOINLINE void sort_table(std::vector<unsigned> &table);

void fill_table(std::vector<unsigned> &table)
{
	unsigned x = 1;

	for (auto &value : table)
		value = (x = x * 1103515245 + 12345) >> 4;
}

long count_even(const std::vector<unsigned> &table)
{
	return std::count_if(table.begin(), table.end(),
			     [](unsigned value) { return value % 2 == 0; });
}

long count_values(const std::vector<unsigned> &table)
{
	std::map<unsigned, unsigned> counts;

	for (auto value : table)
		counts[value & 1023]++;
	return static_cast<long>(counts.size());
}

void sort_table(std::vector<unsigned> &table)
{
	std::sort(table.begin(), table.end());
}

int main(int argc, char **argv)
{
	std::vector<unsigned> table(50000);

	program_start(argc, argv);
	while (program_running()) {
		fill_table(table);
		program_sink += static_cast<uint64_t>(count_even(table) + count_values(table));
		sort_table(table);
	}
	return 0;
}
