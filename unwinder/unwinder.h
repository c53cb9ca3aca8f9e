/* unwinder.h - (address space, registers, stack bytes) -> frames and one outcome.
 *
 * Thread: an engine belongs to one thread.  Spaces are immutable and counted; modules are shared
 * (module.h).  No function here needs a live process, a descriptor or a ring: a snapshot is memory.
 *
 * Every unwind ends in one outcome:
 *   UW_WHOLE    the walk reached a root: an undefined return address (which the ABI sets for _start
 *               and clone), or a return address of 0
 *   UW_CUT      the next address needed lies outside the stack copy, and the copy filled its room, or ends at a page
 *               that was not there; or UW_TOO_DEEP: there are more frames than the result has room for
 *   UW_FAILED   see uw_reason
 *   UW_PENDING  a module on the stack is not loaded yet (res->pending, borrowed): load it, then
 *               unwind again
 */
#pragma once

#include "unwinder/space.h"

enum {
	UW_MAX_FRAMES = 4096,
	UW_FRESH_NS = 1000000,
	UW_BATCH = 16, /* snapshots unwound side by side */
};

/* Registers stand as perf writes them for this mask: ascending bit order, no gaps
 * (x86: AX BX CX DX SI DI BP SP IP FLAGS CS SS R8..R15; uapi asm/perf_regs.h). */
#define UW_REGS_MASK_X86_64 0xff0fffull
#define UW_REGS_MASK_AARCH64 0x1ffffffffull /* x0..x30, sp, pc */
enum {
	UW_X86_AX,
	UW_X86_BX,
	UW_X86_CX,
	UW_X86_DX,
	UW_X86_SI,
	UW_X86_DI,
	UW_X86_BP,
	UW_X86_SP,
	UW_X86_IP,
	UW_X86_FLAGS,
	UW_X86_CS,
	UW_X86_SS,
	UW_X86_R8,
	UW_X86_R15 = UW_X86_R8 + 7,
	UW_X86_COUNT,
	UW_ARM64_FP = 29,
	UW_ARM64_LR,
	UW_ARM64_SP,
	UW_ARM64_PC,
	UW_ARM64_COUNT,
};

/* The number of registers; 0 for an ABI that is not unwound. */
static inline size_t uw_arch_regs(enum uw_arch arch)
{
	return arch == UW_ARCH_X86_64	 ? (size_t)UW_X86_COUNT
	       : arch == UW_ARCH_AARCH64 ? (size_t)UW_ARM64_COUNT
					 : 0;
}

static inline uint64_t uw_arch_regs_mask(enum uw_arch arch)
{
	return arch == UW_ARCH_X86_64	 ? UW_REGS_MASK_X86_64
	       : arch == UW_ARCH_AARCH64 ? UW_REGS_MASK_AARCH64
					 : 0;
}

/* All registers that perf knows: also x86-64's segment registers, and aarch64's vector length. */
static inline uint64_t uw_arch_regs_known(enum uw_arch arch)
{
	return arch == UW_ARCH_X86_64	 ? UW_REGS_MASK_X86_64 | 0xffffff
	       : arch == UW_ARCH_AARCH64 ? UW_REGS_MASK_AARCH64 | 1ull << 46
					 : 0;
}

enum uw_outcome { UW_WHOLE, UW_CUT, UW_FAILED, UW_PENDING };

/* Why a stack FAILED.  The names (uw_reason_name) are part of the --json output. */
enum uw_reason {
	UW_OK,
	UW_NO_USER_STATE,  /* no user registers: a kernel thread, or an exiting task */
	UW_ABI,		   /* not an ABI that is unwound (32-bit programs) */
	UW_NO_MODULE,	   /* a pc outside every known executable mapping */
	UW_UNREADABLE,	   /* the module's file or memory could not be read */
	UW_NO_UNWIND_INFO, /* no CFI for the pc and the frame pointer guess does not hold */
	UW_BAD_CFI,	   /* damaged or unsupported unwind information */
	UW_BAD_RETURN,	   /* the return address does not follow a call */
	UW_NO_PROGRESS,	   /* the stack does not shrink */
	UW_MEMORY,	   /* an address outside the copy that was not full */
	UW_TOO_DEEP,	   /* more than UW_MAX_FRAMES: CUT */
	UW_UNRESPONSIVE,   /* the module's file, or the process, did not answer in time */
	UW_THINNED,	   /* not unwound: all samples of its process were left out on purpose */
	UW_REASON_COUNT,
};
const char *uw_reason_name(enum uw_reason reason); /* "no-module" ... */
const char *uw_outcome_name(enum uw_outcome outcome);

/* A frame: the address in the low 56 bits, flags above.  Innermost first.
 * A caller's address is the return address; look up names and lines one byte (x86) or one
 * instruction (aarch64) before it: uw_frame_lookup(). */
#define UW_FRAME_CALLER (1ull << 56)  /* a return address */
#define UW_FRAME_SIGNAL (1ull << 57)  /* interrupted by a signal: the address itself counts */
#define UW_FRAME_GUESSED (1ull << 58) /* without unwind information, or by another stack */
/* Interpreted: the address is that of the Method of a Java VM (uw_module_lines), not of code. */
#define UW_FRAME_METHOD (1ull << 59)
/* Of an interpreter: the address is one of the space's script module (module.h), not of code. */
#define UW_FRAME_SCRIPT (1ull << 60)
/* ... of 62 bits: the upper six are in place of the other flags but UW_FRAME_GUESSED. */
static inline uint64_t uw_frame_of_script(uint64_t address)
{
	return (address & ((1ull << 58) - 1)) | (address >> 58 & 1) << 59 |
	       (address >> 59 & 7) << 61 | UW_FRAME_SCRIPT;
}
static inline uint64_t uw_frame_script_address(uint64_t frame)
{
	return (frame & ((1ull << 58) - 1)) | (frame >> 59 & 1) << 58 | frame >> 61 << 59;
}
static inline uint64_t uw_frame_pc(uint64_t frame)
{
	return frame & ((1ull << 56) - 1);
}
static inline uint64_t uw_frame_lookup(uint64_t frame)
{
	return uw_frame_pc(frame) - ((frame & (UW_FRAME_CALLER | UW_FRAME_METHOD)) ==
				     UW_FRAME_CALLER); /* inside the call instruction is enough */
}

/* The stack pointer out of registers of this machine, in that order. */
static inline uint64_t uw_host_sp(const uint64_t *regs)
{
	return regs[UW_ARCH_HOST == UW_ARCH_AARCH64 ? (int)UW_ARM64_SP : (int)UW_X86_SP];
}

enum { UW_PYTHON_WORDS = 3 };

struct uw_snapshot {
	struct uw_space *space; /* borrowed */
	const uint64_t *regs;	/* UW_REGS_MASK_* order, 8-aligned; NULL: no user state */
	enum uw_arch arch;	/* UW_ARCH_NONE: an ABI that is not unwound */
	bool stack_full;	/* dyn_size reached the room of the copy */
	uint32_t stack_len;	/* bytes copied from the stack pointer up */
	const uint8_t *stack;	/* 8-aligned; of a live recording: in the perf ring */
	/* A number of the thread (its tid), 0: not known. It selects the earlier stacks of the
	 * thread, for speed and to complete a stack with a copy that ends too soon; it is not trusted for
	 * anything else. */
	uint32_t thread;
	const uint64_t
		*chain; /* the kernel's user callchain (engine fp only), context marks taken out */
	uint32_t n_chain;
	bool check_chain; /* engine fp: against CFI; else the chain is taken as it is, unchecked */
	/* The code of a Java VM was read after the sample was taken: what is not known now is not
	 * waited for. */
	bool settled;
	/* Of the sample, ns; of the clock of struct uw_settings.  0: not known.  What is read from the memory of
	 * the process more than UW_FRESH_NS later is marked as guessed: the thread may have returned and called. */
	uint64_t time;
	/* Of a Go program: a goroutine's stack (native-go.c).  Else the frames of CPython's functions at the moment of the sample, innermost first (perf/at-sample.h);
	 * UW_PYTHON_WORDS words each.  0: they were not copied, and are read from the process. */
	const uint64_t *python;
	uint32_t n_python;
};

struct uw_result {
	uint64_t *frames;    /* in: room for max_frames; out: the frames, innermost first */
	uint32_t max_frames; /* in, <= UW_MAX_FRAMES */
	uint32_t n_frames;
	uint8_t outcome, reason;
	bool unchecked; /* WHOLE, engine fp: no unwind information was there to check the callchain */
	bool by_fp; /* WHOLE by frame pointers, in a module with unwind information that fails (unwinder.c) */
	bool stg; /* native: a frame is GHC's code */
	bool other_stack; /* native: it goes on on a stack that no copy has, and that was or can be read from the process */
	bool lacks_functions; /* native: frames of an interpreter's loop stand for functions that are not known */
	bool completed; /* WHOLE by earlier stacks of the thread: frames that no copy has */
	struct uw_module *pending; /* UW_PENDING */
	uint64_t stopped_at;	   /* the address that was needed and not there (CUT, FAILED) */
	/* Native: bytes from the stack pointer up to the last frame; 0: not known (another stack). */
	uint32_t stack_used;
	uint64_t fp; /* native, UW_TOO_DEEP: rbp where the room ended; rsp by stack_used */
	/* Native: from the sample to the end of the first read of the process's memory beyond the copy, microseconds, 1 at
	 * least; 0: nothing was read, or uw_snapshot.time is not known. */
	uint32_t read_after_us;
};

enum uw_engine_kind {
	UW_ENGINE_NATIVE,    /* our rule cache over CFI */
	UW_ENGINE_LIBUNWIND, /* oracle, selectable */
	UW_ENGINE_LIBDW,     /* oracle, selectable */
	UW_ENGINE_FP,	     /* the kernel's callchain, checked against CFI */
	UW_ENGINE_FP_COPY,   /* frame pointers over the stack copy */
	UW_ENGINE_COUNT,
};
const char *
uw_engine_name(enum uw_engine_kind kind); /* "native", "libunwind", "libdw", "fp", "fp-copy" */

struct uw_engine;
struct uw_engine_stats {
	uint64_t frames, cache_hits, cache_misses, shared_hits, cfi_runs, reused_frames,
		completed_stacks, cache_bytes;
	uint64_t cies_read, fdes_read; /* records of unwind information that were read */
};

int uw_engine_new(enum uw_engine_kind kind, struct uw_engine **ret_engine);
struct uw_engine *uw_engine_free(struct uw_engine *engine);
struct uw_settings {
	bool native_frames; /* interpreters: frames of the evaluation loop stay next to the functions that it runs */
	int clock; /* of uw_snapshot.time: a clockid_t */
	bool fallback; /* engine native: frame pointers where the unwind information of a module fails (unwinder.c) */
};
/* Before the first stack; all zero by default. */
void uw_engine_set(struct uw_engine *engine, const struct uw_settings *settings);
/* Unwinds @n (any number) snapshots; results[i] answers snapshots[i].  No allocation once warm. < 0
 * only for our own failure (-ENOMEM): the failure of a stack is in its result. */
int uw_unwind_batch(struct uw_engine *engine, const struct uw_snapshot *snapshots, size_t n,
		    struct uw_result *results);
/* Forgets what is cached about @module (NULL: everything), before the module's data is dropped. */
void uw_engine_forget(struct uw_engine *engine, const struct uw_module *module);
/* The same, and drops its unwind half. */
void uw_engine_drop(struct uw_engine *engine, struct uw_module *module);
/* After UW_PENDING for a module that is loaded, but without a separate debug file that the engine
 * needs (uw_module_want_separate): drops it, so that it can be loaded again. */
void uw_engine_renew(struct uw_engine *engine, struct uw_module *module);
/* After a module of a Java VM was loaded again: uses that (uw_module_adopt_unwind). */
void uw_engine_adopt(struct uw_engine *engine, struct uw_module *module);
void uw_engine_stats(const struct uw_engine *engine, struct uw_engine_stats *ret_stats);
