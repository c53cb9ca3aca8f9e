/* exceptions.cc - C++ exceptions thrown through 10 frames with destructors, and caught; much time is spent in
 * the C++ run time's own unwinder and in the cold parts of these functions.
 * main > exception_round > throw_down(int) > ... (10) > throw_here(int) > burn, and the C++ run time's frames */
#include <stdexcept>
#include <string>

#include "program.h"

struct Guard {
	int n;
	explicit Guard(int number) : n(number)
	{
	}
	~Guard();
};

NOINLINE Guard::~Guard()
{
	burn(static_cast<uint64_t>(n & 1));
}

NOINLINE void throw_here(int n)
{
	burn(20);
	if (program_sink != 1)
		throw std::runtime_error("round " + std::to_string(n));
}

NOINLINE void throw_down(int depth)
{
	Guard guard(depth);

	if (depth)
		throw_down(depth - 1);
	else
		throw_here(depth);
	NOT_LAST;
}

NOINLINE void exception_round()
{
	try {
		throw_down(9);
	} catch (const std::exception &e) {
		program_sink += static_cast<uint64_t>(e.what()[0]);
		burn(20);
	}
}

int main(int argc, char **argv)
{
	program_start(argc, argv);
	while (program_running())
		exception_round();
	return 0;
}
