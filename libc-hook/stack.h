/* stack.h - how much room a signal takes on an alternate stack.  Plain functions of the kernel's
 * figure, which differs by CPU: AT_MINSIGSTKSZ, the largest frame that it may push, is about 1,800
 * bytes without AVX-512, 3,400 to 3,700 with it, 11,952 with AMX, more with long SVE vectors.
 * Thread: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	/* Bytes that our handler uses before it knows how much room is left, and to call the
	 * program's handler. */
	STACK_TO_LOOK = 512,
	/* Bytes for an answer, and for the handler of a trap in it. */
	STACK_TO_ANSWER = 1024,
	/* Kernels before 5.14 do not report it on x86; they know no AMX. */
	STACK_FRAME_UNKNOWN = 4096,
	/* AMX: tile data, a part of AT_MINSIGSTKSZ, but not of the frame of a process that has not
	 * requested it by arch_prctl(); that call, and sigaltstack() after it, fail where an
	 * alternate stack is below AT_MINSIGSTKSZ (arch/x86/kernel/fpu/xstate.c, signal.c).  No
	 * frame without it is as large. */
	STACK_TILE_DATA = 8192,
	/* The next frame is aligned to 64 bytes, behind 128 that the interrupted function may use. */
	STACK_BETWEEN = 192,
};

/* Is an alternate stack of @size bytes large enough for one frame and for our handler to look?
 * @largest_frame: AT_MINSIGSTKSZ, 0: unknown. */
static inline bool stack_takes_frame(size_t size, size_t largest_frame)
{
	size_t frame = largest_frame ? largest_frame : STACK_FRAME_UNKNOWN;

#ifdef __x86_64__
	if (frame > STACK_TILE_DATA + 1024)
		frame -= STACK_TILE_DATA;
#endif
	return size >= frame + STACK_TO_LOOK;
}

/* Our handler is at @here, on the alternate stack [@low, @low + @size) or elsewhere: is there room
 * for an answer, in which a trapped system call may push a frame more? */
static inline bool stack_takes_answer(uintptr_t here, uintptr_t low, size_t size)
{
	size_t used;

	if (here < low || here - low >= size)
		return true;
	used = size - (here - low); /* a frame, or more */
	return here - low >= used + STACK_BETWEEN + STACK_TO_ANSWER;
}
