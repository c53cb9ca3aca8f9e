/* marks-ring.h - the memory in which a target's marks lie (libperfwind-marks.so writes it, marks/mark-ring reads it), and how
 * a recording and a target find each other.  Plain layouts and constants, included by both sides.
 *
 * A memfd named MARKS_MEMFD, sealed against growing and shrinking; one for each process:
 *
 *   0                    struct marks_head      the recording writes mask, until and the invitation; all else is the target's
 *   MARKS_SLOTS_AT       struct marks_slot [MARKS_SLOTS]
 *   MARKS_DATA_AT        MARKS_SLOTS rings of MARKS_RING_BYTES: one for each thread that has marks
 *
 * A ring is written by one thread and overwrites its oldest marks.  The reader only reads: a mark that was overwritten
 * before it was read shows as a gap in the numbers of the marks, so each loss is counted, and a target cannot stall or
 * mislead the reader through positions of its own.
 *
 *   recording ── environment of a command, or an invitation in the head ──► target
 *   target ── connect, one message: MARKS_BYTE + SCM_RIGHTS {memfd} ──► recording, which asks the kernel for the pid
 *
 * A program that is loaded while all processes are recorded asks for its invitation: it connects to MARKS_ALL_SOCKET and
 * sends the same message with MARKS_HELLO. */
#pragma once

#include <stdint.h>

#define MARKS_MEMFD "perfwind-marks"
#define MARKS_ENV "PERFWIND_MARKS" /* CLOCK:MASK:FLAGS:SOCKET, the first three in hexadecimal */
#define MARKS_ENV_ANSWER \
	"PERFWIND_MARKS_ANSWER" /* "1": trace_marker is answered also while nothing records */
/* An abstract name, and behind it the effective uid of the recording: MARKS_ALL_DIGITS hexadecimal digits. */
#define MARKS_ALL_SOCKET "@perfwind-marks-all-"
#define MARKS_ALL_DIGITS 8
#define MARKS_MAGIC 0x31736b72616d7770ull

enum {
	MARKS_VERSION = 1,
	MARKS_BYTE = 'm',
	MARKS_HELLO = 'h',
	MARKS_SOCKET_MAX = 104, /* of an abstract name, or of a path; with the NUL */
	MARKS_SLOTS = 128,
	MARKS_SLOTS_AT = 1 << 16,
	MARKS_DATA_AT = 2 << 16,
	MARKS_RING_BYTES = 256 << 10,
	MARKS_RING_WORDS = MARKS_RING_BYTES / 8,
	MARKS_MARK_WORDS = 5,  /* of a mark without a name */
	MARKS_NAME_MAX = 1024, /* bytes; the rest of a longer name is cut off */
	MARKS_LEASE_MS =
		10000, /* marks end by themselves so long after the recording was last seen */
};
#define MARKS_BYTES ((uint64_t)MARKS_DATA_AT + (uint64_t)MARKS_SLOTS * MARKS_RING_BYTES)

/* Categories 0 to 61 are the program's. */
#define MARKS_FUNCTIONS (1ull << 63) /* -finstrument-functions */
#define MARKS_TEXT (1ull << 62)	     /* text written to trace_marker */

/* Flags of a recording. */
#define MARKS_TAKE_ALL \
	1u /* trace_marker is answered even where it could be opened: the recording does not read ftrace */

struct marks_head {
	uint64_t
		mask; /* first: this page stands in for a page of each object that has marks (perfwind-marks.h) */
	uint64_t magic;
	uint32_t version, pid; /* pid: as the process sees itself */
	uint64_t lost;	       /* marks of threads without a slot */
	uint64_t until;	       /* on the recording's clock, ns */
	uint32_t clock, flags;
	uint32_t invitation, reserved; /* a number that changes with each; 0: none yet */
	char socket[MARKS_SOCKET_MAX]; /* "@NAME": abstract; else a path */
};

struct marks_slot {
	uint64_t head; /* number of the next mark << 32 | its position in words; both wrap */
	uint64_t
		begin; /* head as the ring was handed over: older marks are of earlier recordings */
	uint32_t tid;  /* 0: free */
	uint32_t reserved;
	uint64_t padding[5];
};

/* A mark: MARKS_MARK_WORDS words and the name, with zeros up to a whole word.  Word 0 is written last: the mark is whole
 * when its low half is its own position, which no earlier round of the ring has there. */
struct marks_record {
	uint32_t position;
	uint16_t words; /* with these five */
	uint8_t kind, flags;
	uint64_t time;
	uint32_t tid, number;
	uint64_t value; /* counter, cookie, address of a function */
	uint64_t extra; /* category; of a function the stack pointer; of a stack its end */
};

/* Flags of MARKS_ENTER and MARKS_LEAVE. */
#define MARKS_UNCAUGHT \
	0x7fu /* number of exceptions in flight: more at the end than at the begin: it is left by one */
#define MARKS_TAIL \
	0x80u /* the end is reported by a jump: the stack pointer is already the caller's */

enum marks_kind {
	MARKS_BEGIN = 1, /* name */
	MARKS_END,
	MARKS_INSTANT,	   /* name */
	MARKS_COUNTER,	   /* name, value */
	MARKS_ASYNC_BEGIN, /* name, value: cookie */
	MARKS_ASYNC_END,
	MARKS_LINE, /* name: what was written to trace_marker */
	MARKS_ENTER, /* value: function, extra: stack pointer, name: two words, the call site and where the
			* function's frame begins, 0: not known */
	MARKS_LEAVE, /* the same, with one word */
	MARKS_THREAD_END,
	MARKS_STACK, /* value: lowest address, extra: first address behind: a stack of its own (swapcontext, sigaltstack) */
	MARKS_KINDS
};
