/* go-layout.h - fields of Go's scheduler on 64-bit machines, and the words that the program at the samples copies of them.
 * For code of the host and of BPF.  Thread: any. */
#pragma once

/* Bytes from the start of a g or an m (runtime/runtime2.go of 1.18 to 1.24).  A g begins with the bounds of its stack: lo, hi. */
enum {
	GO_G_M = 0x30,	    /* g.m */
	GO_G_SP = 0x38,	    /* g.sched.sp; behind it sched.pc */
	GO_M_PROCID = 0x48, /* m.procid: the kernel's id of the thread */
	GO_M_CURG = 0xc0,   /* m.curg */
};

/* Words of a record of Go, before those of the stack. */
enum { GO_COPY_M, GO_COPY_G, GO_COPY_LO, GO_COPY_HI, GO_COPY_SP, GO_COPY_PC, GO_COPY_HEAD };
