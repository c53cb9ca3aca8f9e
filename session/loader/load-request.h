/* load-request.h - a request to the loader (loader.h) and its answer.  Thread: any, one at a time. */
#pragma once

#include "proc/process.h"
#include "proc/procfs.h"
#include "proc/wait-place.h"

/* LOAD_WAIT: bytes of the stack, at most. */
enum { LOAD_STACK_MAX = 16384 };

enum load_kind {
	LOAD_PROCESS, /* status, command line and mappings of `pid` */
	LOAD_NAMES,   /* status and command line only */
	LOAD_THREADS, /* the names of its threads; not urgent */
	LOAD_QUERY,   /* the one executable mapping at address `vaddr` of `pid` */
	LOAD_UNWIND,  /* the unwind half of `module`; its symbols follow, not urgent */
	LOAD_SYMBOLS, /* an answer only (after LOAD_UNWIND), or a request for a perf map that has grown */
	LOAD_WAIT, /* where thread `tag` of `pid` waits, with its stack; `vaddr`: the clock (CLOCK_*) of the answer's
		       times */
	LOAD_LINES, /* inlined calls and lines of `vaddrs` in `module` */
};

/* The answer to LOAD_PROCESS has the names of up to so many threads. */
enum { LOAD_THREADS_AT_ONCE = 64 };

struct load_request {
	enum load_kind kind;
	uint32_t pid;
	struct process *process; /* passed through; main keeps a reference until the answer */
	struct uw_module
		*module; /* the same; loader_free() drops the references of unanswered requests */
	uint64_t start, end, offset, vaddr;
	struct uw_file_id id;
	uint32_t owner; /* of the process: open-file.h */
	uint32_t tag;	/* passed through */
	uint64_t
		vm; /* of a JIT module: where the process has libjvm.so's or its interpreter's image; 0: nowhere */
	/* 1 + a descriptor that the process sent (consent.h); 0: none, /proc is opened instead.  Its maps for LOAD_PROCESS
	 * and LOAD_QUERY, its mem for LOAD_UNWIND.  Owned: closed with the answer, by loader_free(), or by the caller of a
	 * request that was not taken (load_request_deinit). */
	uint32_t given;
	bool closed; /* maps and mem of the process must not be opened: what it sent, or -EACCES */
	struct uw_reading reading; /* again: this half is there already */
	uint64_t *vaddrs;	   /* owned as `given`; LOAD_VADDRS_MAX at most */
	size_t n_vaddrs;
	bool spans;	/* LOAD_LINES: where the lines hold too, for later recordings */
	size_t n_known; /* further addresses behind them, which are not looked up: line-cache.h */
};
/* Do samples wait for the answer? */
static inline bool load_is_urgent(const struct load_request *request)
{
	return request->kind != LOAD_SYMBOLS && request->kind != LOAD_LINES &&
	       request->kind != LOAD_THREADS;
}

/* Names in the memory of a process that runs a script, and that may end before they are read. */
static inline bool load_is_script(const struct load_request *request)
{
	return request->kind == LOAD_LINES && uw_module_language(request->module);
}

enum { LOAD_VADDRS_MAX = 256 };
/* A copy of @fd for load_request.given; of -1: 0. */
uint32_t load_given_new(int fd);
static inline int load_given(const struct load_request *request)
{
	return (int)request->given - 1;
}
void load_request_deinit(struct load_request *request);

struct load_line {
	uint32_t address;      /* index of `vaddrs` of the request, behind it of `spans` */
	char *function, *file; /* owned; file may be NULL */
	uint32_t line;
	enum frame_kind kind;
};

struct load_answer {
	struct load_request request;
	int error; /* < 0 */
	/* LOAD_PROCESS, LOAD_NAMES */
	struct procfs_status status;
	char *maps, *cmdline, *cgroup; /* owned; NULL where they could not be read */
	size_t maps_len, cmdline_len;
	struct uw_memory *memory; /* owned; /proc/PID/mem */
	bool memory_denied;	  /* it exists and may not be opened */
	/* LOAD_THREADS, LOAD_PROCESS */
	struct load_thread {
		uint32_t tid;
		char comm[16];
	} * threads; /* owned */
	size_t n_threads;
	/* LOAD_WAIT: read at some time between the two; -EAGAIN: it ran */
	struct wait_place wait;
	uint64_t wait_from, wait_until;
	uint8_t *stack; /* owned; from wait.sp up */
	size_t stack_len;
	/* LOAD_QUERY: error -ENOENT when nothing executable is there */
	struct load_mapping {
		uint64_t start, end, offset;
		struct uw_file_id id;
		char *path; /* owned */
	} mapping;
	/* LOAD_UNWIND */
	bool proved;	  /* the file is the mapped one beyond doubt */
	bool from_memory; /* read from the process because no file could be opened */
	int vm_error;	  /* < 0: there is a Java VM, and it could not be read */
	/* LOAD_UNWIND; LOAD_LINES: has_file only if all that was read belongs to that file (line-cache.h) */
	bool has_file;
	struct load_file {
		uint64_t device, inode, bytes, changed_ns, status_changed_ns, owner;
	} file; /* of the module */
	/* LOAD_LINES */
	struct load_line *lines; /* owned; by address, of each innermost first */
	size_t n_lines;
	/* Where the lines of the addresses hold, then further parts of their functions; 0, 0: not known. */
	struct load_span {
		uint64_t low, high;
	} * spans; /* owned */
	size_t n_spans;
	uint64_t cpu_ns; /* CPU time that the lines took */
};
void load_answer_deinit(struct load_answer *answer);
