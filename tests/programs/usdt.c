/* usdt.c - two static probes (the notes of sys/sdt.h, written by hand): test:tick, which always fires, and test:watched, which the
 * program reaches only while its semaphore counts a user.  Runs for argv[1] ms (default 300). */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

__attribute__((section(".probes"), used)) volatile unsigned short watched_semaphore;

#define PROBE(name, semaphore, argument)                                                       \
	__asm__ volatile("990: nop\n"                                                          \
			 ".pushsection .note.stapsdt,\"\",%%note\n"                            \
			 ".balign 4\n"                                                         \
			 ".4byte 992f-991f, 994f-993f, 3\n"                                    \
			 "991: .asciz \"stapsdt\"\n"                                           \
			 "992: .balign 4\n"                                                    \
			 "993: .8byte 990b\n"                                                  \
			 ".8byte _.stapsdt.base\n"                                             \
			 ".8byte " semaphore "\n"                                              \
			 ".asciz \"test\"\n.asciz \"" name "\"\n.asciz \"-4@%0\"\n"            \
			 "994: .balign 4\n"                                                    \
			 ".popsection\n"                                                       \
			 ".ifndef _.stapsdt.base\n"                                            \
			 ".pushsection .stapsdt.base,\"aG\",%%progbits,.stapsdt.base,comdat\n" \
			 ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"                      \
			 "_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n"                 \
			 ".popsection\n"                                                       \
			 ".endif\n"                                                            \
			 :                                                                     \
			 : "r"(argument))

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
	const double end = now_ms() + (argc > 1 ? strtod(argv[1], NULL) : 300);
	int ticks = 0, watched = 0;

	while (now_ms() < end) {
		const struct timespec pause = {.tv_nsec = 1000000};

		PROBE("tick", "0", ticks);
		ticks++;
		if (watched_semaphore) {
			PROBE("watched", "watched_semaphore", watched);
			watched++;
		}
		nanosleep(&pause, NULL);
	}
	printf("%d %d\n", ticks, watched);
	return 0;
}
