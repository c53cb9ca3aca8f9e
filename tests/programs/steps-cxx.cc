// steps-cxx.cc - for diff-steps (see steps.c): exceptions, cold parts, coroutines, virtual calls.
#include <coroutine>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "program.h"

namespace {

template <typename T> void sink(T x) { program_sink = program_sink + (uint64_t)x; }

struct Guard { // its destructor runs in a landing pad
	~Guard() { sink(1); }
};

NOINLINE __attribute__((cold)) void cold_part(int n)
{
	sink((uint64_t)n);
	throw std::runtime_error("thrown " + std::to_string(n));
}

NOINLINE int throws_at(int n, int at)
{
	Guard guard;

	if (__builtin_expect(n == at, 0)) // its way out is moved to .text.unlikely
		cold_part(n);
	return n ? throws_at(n - 1, at) + 1 : 0;
}

NOINLINE int catches(int n, int at)
{
	try {
		return throws_at(n, at);
	} catch (const std::exception &e) {
		return (int)std::string(e.what()).size();
	}
}

NOINLINE int rethrows(int n)
{
	try {
		return catches(n, n + 1) + throws_at(n, 1);
	} catch (...) {
		sink(1);
		throw;
	}
}

void run_exceptions()
{
	sink((uint64_t)catches(4, 2));
	try {
		sink((uint64_t)rethrows(3));
	} catch (const std::runtime_error &e) {
		sink(e.what()[0]);
	}
}

struct Generator {
	struct promise_type {
		int value = 0;
		Generator get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
		std::suspend_always initial_suspend() noexcept { return {}; }
		std::suspend_always final_suspend() noexcept { return {}; }
		std::suspend_always yield_value(int v) noexcept
		{
			value = v;
			return {};
		}
		void return_void() {}
		void unhandled_exception() { throw; }
	};
	std::coroutine_handle<promise_type> handle;
};

Generator numbers(int n)
{
	Guard guard;

	for (int i = 0; i < n; i++) {
		std::string text(40, (char)('a' + i));

		co_yield (int)text.size() + i;
	}
	throw std::runtime_error("the end");
}

void run_coroutines()
{
	Generator g = numbers(3);

	try {
		while (!g.handle.done()) {
			g.handle.resume();
			sink((uint64_t)g.handle.promise().value);
		}
	} catch (const std::exception &) {
		sink(1);
	}
	g.handle.destroy();
}

struct First {
	virtual ~First() = default;
	virtual int first(int n) { return n + 1; }
};
struct Second {
	virtual ~Second() = default;
	virtual int second(int n) { return n + 2; }
};
struct Both : First, Second { // called as Second through a thunk
	int first(int n) override { return n + 3; }
	int second(int n) override
	{
		std::vector<int> list((size_t)n, 1);

		return (int)list.size();
	}
};

NOINLINE int call_second(Second &s, int n)
{
	return s.second(n) + 1;
}

void run_virtual()
{
	Both both;
	std::function<int(int)> f = [&](int n) { return call_second(both, n); };

	sink((uint64_t)f(7));
}

} // namespace

int main(int argc, char **argv)
{
	std::string which = argc > 1 ? argv[1] : "";
	void (*run)() = which == "exceptions"	? run_exceptions
			: which == "coroutines" ? run_coroutines
			: which == "virtual"	? run_virtual
						: nullptr;

	if (!run)
		return 2;
	__asm__ volatile("int3");
	run();
	__asm__ volatile("int3");
	return 0;
}
