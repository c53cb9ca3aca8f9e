/* known-stack.c - a stack of up to 330 KB of which each frame is known: main > a pseudo-random sequence of known_0 to
 * known_7, up to 3000 deep > burn_here.  It stops for 5 ms at some depths, and prints each sequence, as digits, before it
 * goes down.  tests/integration/known_stack.py compares. */
#include "program.h"

enum { DEEPEST = 3000, HOLD_US = 5000, APART = 300 };

static char sequence[DEEPEST + 2];
static int stop;
static uint32_t number = 7;

static uint32_t next_number(void)
{
	number ^= number << 13;
	number ^= number >> 17;
	number ^= number << 5;
	return number;
}

static NOINLINE uint64_t burn_here(void)
{
	double until = program_now() + HOLD_US / 1e6;
	uint64_t x = 0;

	while (program_now() < until)
		x += burn(20);
	return x;
}

static uint64_t (*const known[8])(int depth);

#define KNOWN(n, words)                                                   \
	static NOINLINE uint64_t known_##n(int depth)                     \
	{                                                                 \
		volatile uint64_t local[words];                           \
		uint64_t x = 0;                                           \
                                                                          \
		local[0] = (uint64_t)depth;                               \
		if (depth >= stop) {                                      \
			x = burn_here();                                  \
			stop = depth + 1 + (int)(next_number() % APART);  \
		}                                                         \
		if (depth < DEEPEST)                                      \
			x += known[sequence[depth + 1] - '0'](depth + 1); \
		return x + local[0];                                      \
	}
KNOWN(0, 4)
KNOWN(1, 8)
KNOWN(2, 9)
KNOWN(3, 3)
KNOWN(4, 11)
KNOWN(5, 10)
KNOWN(6, 21)
KNOWN(7, 7)

static uint64_t (*const known[8])(int depth) = {known_0, known_1, known_2, known_3,
						known_4, known_5, known_6, known_7};

int main(int argc, char **argv)
{
	program_start(argc, argv);
	do {
		for (int i = 0; i <= DEEPEST; i++)
			sequence[i] = (char)('0' + next_number() % 8);
		puts(sequence);
		fflush(stdout);
		stop = 0;
		(void)known[sequence[0] - '0'](0);
	} while (program_running());
	return 0;
}
