/* at-sample-records.h - what the program at the samples (at-sample.bpf.c) and main share: settings, tables, records.
 *
 * Compiled by the compiler of the host and by the one for BPF: types of fixed size only. */
#pragma once

#include <linux/types.h>

/* The program's constants: the kernel's verifier drops what they exclude. */
struct at_sample_settings {
	__u8 in_kernel; /* also for samples of kernel code: BTF and Linux 5.15 */
	__u8 deep, python, unused;
	__u32 deep_ring_bytes;
};

/* Begins each record of a ring. */
struct at_sample_record {
	__u64 time, sp; /* time: CLOCK_MONOTONIC; sp: of the thread's user side */
	__u32 tid;
	__u32 len;     /* bytes behind that are valid */
	__u64 goes_on; /* a stack may be longer than them */
};

/* ---- stacks ---- */

enum {
	DEEP_THREADS = 4096,
	DEEP_PAGE = 4096, /* the smallest there is; larger pages are read in pieces */
	DEEP_KIB_1 = 64,  /* classes of a thread: KiB of a record */
	DEEP_KIB_2 = 128,
	DEEP_KIB_3 = 256,
	DEEP_KIB_4 = 384,
	DEEP_KIB_5 = 512,
	DEEP_KIB_6 = 768,
	DEEP_KIB_7 = 1024
};

struct deep_table {
	__u64 threads[DEEP_THREADS]; /* tid << 32 | class, at tid % DEEP_THREADS */
	__u64 most_ns;		     /* a copy ends with the piece that takes longer */
	__u32 room;		     /* bytes of the smallest copy of the kernel */
	__u32 first;		     /* class of a thread without an entry */
	__u64 lost;		     /* stacks without room in the ring */
};
/* Behind the record's head: pages of the stack, from the page of sp on; as many as its class allows are reserved. */

/* ---- CPython ---- */

enum {
	PYTHON_PROCESSES = 512,
	PYTHON_THREADS = 4096,
	PYTHON_STACK_MAX = 320, /* frames of one stack: the innermost */
	PYTHON_STACK_WORDS = 3, /* of a frame */
	PYTHON_FUNCTIONS = 8192,
	PYTHON_FUNCTION_PLACES = 4, /* where one may be */
	PYTHON_WAKE_NS = 2000000    /* from one wake-up for new functions to the next */
};

/* Interpreters; the low byte: Python's minor version, the bytes of Ruby's frames. */
enum {
	PYTHON_IS_PYTHON,
	PYTHON_IS_PHP = 0x100,
	PYTHON_IS_RUBY = 0x200,
	PYTHON_HAS_SIZES = 0x400,
	PYTHON_IS_STG = 0x800,
	PYTHON_IS_GO = 0x1000
};

/* Where the frames of a process are: addresses and offsets of its interpreter.
 *   Python   the address of the pointer to its main interpreter ─► thread states ─► frame
 *   PHP      the address of the pointer to the innermost frame
 *   Ruby     the address of the pointer to its VM ─► main thread (threads), first of a ring (next) of all with their ids (native,
 *            where the pointer `through` leads, if it is not 0) ─►
 *            context ─► frame
 *   Go       offsets: of g.m (native), m.curg (next), m.procid (threads), g.sched.sp (frame)
 * PHP: next and native are offsets in an op_array: of its length, and of its file.  PYTHON_HAS_SIZES: Ruby's objects have (symbols/ruby.c). */
struct python_process {
	__u64 key; /* tgid << 32 | PYTHON_IS_* | its low byte; written last */
	__u64 interpreter;
	__u16 threads, next, native, frame, context, through;
	__u16 unused[2];
	__u64 code_type; /* Python: PyCode_Type */
};

struct python_table {
	struct python_process processes[PYTHON_PROCESSES]; /* at tgid % PYTHON_PROCESSES */
	__u64 states
		[PYTHON_THREADS]; /* the thread state of the last sample (Go: the m), at tid % PYTHON_THREADS: tried first */
	__u64 functions
		[PYTHON_FUNCTIONS]; /* PHP, Ruby: hashes of those that were in a sample, at their low bits */
	__u64 woken;		    /* for a new one, last; CLOCK_MONOTONIC */
	__u32 unread;		    /* new ones since then */
	__u32 unused;
};

/* Words of a frame: its address; its code object; its caller's frame in the low 48 bits, its owner in bits 56 to 63, and of
 * 3.11 is_entry in bits 48 to 55; in bits 48 to 59 of its address the sign of the code object (base/python-sign.h), 0: not known, and in bit
 * 60: it is the interpreter's own.  PHP, Ruby: its address; its function in the low 48 bits, in bit 48: it is the first frame of
 * a run, and in bit 49: of a generator that waits (base/php-generator.h; the outermost one is first); its instruction; in bits 48 to 63 of its address the function's sign (symbols/script-sign.h), 0: not known.
 * Haskell: rbp, then the words from there up.  Go: GO_COPY_* (base/go-layout.h), then the words of the goroutine's stack from its sp up. */
struct python_record {
	struct at_sample_record head;
	__u64 frames[PYTHON_STACK_MAX][PYTHON_STACK_WORDS];
};
