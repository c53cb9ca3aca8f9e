/* loader.h - everything slow, off the road.  Thread: main makes and frees it, asks and takes
 * answers; a thread of its own hands the requests out.
 *
 * It reads /proc, opens the files behind mappings, loads unwind sections, symbol tables and lines.
 * A session has this done in helper processes with a deadline (loader-pool.h): a target's files and
 * memory may never answer.  What did not answer is refused: error -ETIMEDOUT, or -EBUSY for what
 * lies on the same device, and the module is UNREADABLE and uw_module_unresponsive(). */
#pragma once

#include "base/queue.h"
#include "proc/process.h"
#include "proc/procfs.h"

enum load_kind {
	LOAD_PROCESS, /* status, command line and mappings of `pid` */
	LOAD_NAMES,   /* status and command line only */
	LOAD_THREADS, /* the names of its threads, when nothing more urgent waits */
	LOAD_QUERY,   /* the one executable mapping at address `vaddr` of `pid` */
	LOAD_UNWIND,  /* the unwind half of `module`; its symbols follow when nothing more urgent
			 waits */
	LOAD_SYMBOLS, /* answer only (after LOAD_UNWIND), or asked for again for a grown perf map */
	LOAD_LINES,   /* inlined calls and lines of `vaddr` in `module` */
};

/* Processes with no more threads than this have their names in the answer to LOAD_PROCESS. */
enum { LOAD_THREADS_AT_ONCE = 64 };

struct load_request {
	enum load_kind kind;
	uint32_t pid;
	struct process
		*process; /* carried along, not touched; main keeps a reference until the answer */
	struct uw_module *module; /* the same; what is unanswered at the end gives them back in
				     loader_free() */
	uint64_t start, end, offset, vaddr;
	struct uw_file_id id;
	uint32_t owner; /* of the process: open-file.h */
	uint32_t tag;	/* carried along */
	/* A descriptor that the process gave (consent.h), and 1; 0: none, /proc is opened instead.
	 * Its maps for LOAD_PROCESS and LOAD_QUERY, its mem for LOAD_UNWIND.  Owned: closed with the
	 * answer, by loader_free(), or by who could not ask (load_request_deinit). */
	uint32_t given;
	bool closed; /* its maps and mem are not to be opened: what it gave, or -EACCES */
};
/* A copy of @fd for load_request.given; of -1: 0. */
uint32_t load_given_new(int fd);
static inline int load_given(const struct load_request *request)
{
	return (int)request->given - 1;
}
void load_request_deinit(struct load_request *request);

struct load_line {
	char *function, *file; /* owned; file may be NULL */
	uint32_t line;
};

struct load_answer {
	struct load_request request;
	int error; /* < 0 */
	/* LOAD_PROCESS, LOAD_NAMES */
	struct procfs_status status;
	char *maps, *cmdline, *cgroup; /* owned; NULL where they could not be read */
	size_t maps_len, cmdline_len;
	struct uw_memory *memory; /* owned; /proc/PID/mem */
	bool memory_denied;	  /* it is there, and may not be opened */
	/* LOAD_THREADS, LOAD_PROCESS */
	struct load_thread {
		uint32_t tid;
		char comm[16];
	} * threads; /* owned */
	size_t n_threads;
	/* LOAD_QUERY: error -ENOENT when nothing executable is there */
	struct load_mapping {
		uint64_t start, end, offset;
		struct uw_file_id id;
		char *path; /* owned */
	} mapping;
	/* LOAD_UNWIND */
	bool proved;	  /* the file is the mapped one beyond doubt */
	bool from_memory; /* read from the process because no file could be opened */
	/* LOAD_LINES */
	struct load_line *lines; /* owned, innermost first */
	size_t n_lines;
	uint64_t cpu_ns; /* that it took */
};
void load_answer_deinit(struct load_answer *answer);

struct loader;
struct memory_guard;
struct loader_options {
	const char *root;	     /* "" or the folder of a fake proc/ */
	struct waker *answers;	     /* main's */
	struct memory_guard *memory; /* what answers' memory is read through; may be NULL */
	bool copies; /* an engine reads the modules' files itself: they come as copies */
};
/* Starts a helper process and the thread. */
int loader_new(const struct loader_options *options, struct loader **ret_loader);
/* Without either, for files that are our own user's: what is asked is done by the loader_answer()
 * that takes its answer, in a fixed order. */
int loader_new_inline(const char *root, struct loader **ret_loader);
/* Does not wait for requests in hand. */
struct loader *loader_free(struct loader *loader);
/* false: too many are waiting. */
bool loader_ask(struct loader *loader, const struct load_request *request);
/* The next answer (the caller deinits it); false: none now. */
bool loader_answer(struct loader *loader, struct load_answer *ret_answer);
/* LOAD_UNWIND of @module with where @process has it mapped; borrows both.  The result is to be
 * deinited where it is not asked. */
struct load_request loader_module_request(const struct process *process, struct uw_module *module);
/* Requests not answered yet (symbols that follow a module included). */
uint64_t loader_pending(const struct loader *loader);

/* Helper processes that were given up, that ended by themselves, that could not be made; CPU time of all (any thread, a
 * snapshot). */
struct loader_counts {
	uint64_t stuck, ended, unmade, cpu_ns;
};
void loader_count(const struct loader *loader, struct loader_counts *ret_counts);

/* Do samples wait for it? */
static inline bool loader_is_urgent(enum load_kind kind)
{
	return kind != LOAD_SYMBOLS && kind != LOAD_LINES && kind != LOAD_THREADS;
}
