/* marks-cxx.cc - marks in C++: a scope that an exception leaves, a stream that writes to trace_marker. */
#include <fstream>
#include <stdexcept>

#include "libmarks/perfwind-marks.h"

static void inner()
{
	PERFWIND_SCOPE(PERFWIND_DEFAULT, "left by an exception");

	throw std::runtime_error("away");
}

int main()
{
	std::ofstream marker("/sys/kernel/tracing/trace_marker");

	if (!marker)
		return 1;
	marker << "B|1|by a stream" << std::flush;
	try {
		inner();
	} catch (const std::exception &) {
		perfwind_instant(PERFWIND_DEFAULT, "caught");
	}
	marker << "E|1" << std::flush;
	return 0;
}
