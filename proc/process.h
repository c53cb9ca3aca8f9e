/* process.h - processes and their mappings, over time.  Thread: main.
 *
 * One table keyed by pid.  Each incarnation of a pid is a struct of its own: pid reuse and exec make
 * a new one, and the old one stays as long as samples in flight refer to it (they were taken with
 * its mappings).  COMM with the exec bit, FORK, EXIT and MMAP2 are applied in time order by the caller:
 * exec, exit, pid reuse and dlopen are facts.  Unmap and mremap give no record: a mapping ends when
 * another covers it, at exec or exit, or when a re-read of /proc/PID/maps disagrees.
 *
 * An incarnation that was seen from its beginning on (exec, or a fork of a known parent) has all its mappings
 * from records: maps_read_at is set from the start, so that its samples need not wait for the text.
 *
 * Earlier mappings (and the result of a refresh) come as a maps text, which the loader reads; records
 * that arrive between request and answer are applied again on top. */
#pragma once

#include <stdatomic.h>

#include "base/table.h"
#include "proc/procmem.h"
#include "symbols/modules.h"
#include "unwinder/unwinder.h"

enum process_maps_state {
	PROCESS_MAPS_UNKNOWN, /* nothing read: ask before the first use */
	PROCESS_MAPS_ASKED,   /* requested; samples wait */
	PROCESS_MAPS_KNOWN,
	PROCESS_MAPS_FAILED, /* could not be read (no permission, gone): only records are known
			      */
};

/* For the reader: is this process wanted? */
enum process_scope { PROCESS_UNDECIDED, PROCESS_WANTED, PROCESS_LEFT_OUT };
/* For the reader: may it be shown? */
enum process_permit {
	PERMIT_UNKNOWN,
	PERMIT_BY_POLICY,
	PERMIT_BY_CONSENT,
	PERMIT_ASKED, /* its consent is under way */
	PERMIT_DENIED
};

struct process_thread {
	uint32_t tid;
	char comm[16];
	char before[16];     /* its name until renamed_at: samples from then may still come */
	uint64_t renamed_at; /* time of the record, the samples' clock; 0: never */
	bool from_record; /* the name is from a record, or the parent's: /proc does not replace it */
	uint32_t announced;    /* for the emitter: round in which it was last written (0: never), */
	char announced_as[16]; /* ... and the name written then */
	uint64_t exited; /* 0: runs; else a count that grows, for eviction: late samples may still
			    come */
};

struct process_maps; /* the executable mappings with their modules (process-maps.h) */
struct process_log;  /* records kept while a text is being read (process-maps.h) */

/* For the reader: its part of the samples that may be taken (session/pipeline/thin.h). */
struct process_share {
	uint64_t window;	/* number of the window that `count` is of */
	uint32_t count, before; /* samples in it, and in the window before it */
	uint32_t credit;	/* fixed point: at one a sample is kept */
	bool listed;
	struct process *next; /* ... before this one in the list */
	uint64_t weight;      /* of samples left out, for the next one */
	uint64_t time;	      /* of the latest one; so are: */
	uint32_t tid, cpu;
	uint32_t sent; /* samples in the stages behind the reader */
};

static inline void process_share_set(struct process_share *share, uint32_t tid, uint32_t cpu,
				     uint64_t time)
{
	share->tid = tid;
	share->cpu = cpu;
	share->time = time;
}

struct process {
	uint32_t pid, ppid, uid;
	uint32_t owner;	 /* of the files that it names: procfs_status.owner */
	uint32_t ns_pid; /* as the process sees itself; 0: not known (process_set_ns_pid) */
	uint64_t serial; /* unique in the table */
	_Atomic uint32_t refs;
	bool kernel_thread;
	bool exited; /* it has ended: exit, exec or pid reuse */
	bool begun;  /* its start was seen: it is not one that was there before, or came back after
			eviction */
	uint32_t
		announced; /* for the emitter: round in which its present name was written (0: not yet), */
	uint64_t incarnation; /* ... under this number; 0: not yet */
	bool names_asked;     /* for the reader: command line and memory were asked for */
	uint8_t scope;	      /* for the reader: enum process_scope */
	uint8_t permit;	      /* for the reader: enum process_permit, */
	uint32_t permit_uid;  /* ... of this user (0: not known), */
	uint64_t permit_at; /* ... by its user at this time (the events' clock); 0: not yet known */
	bool threads_asked; /* the same: for the names of its threads */
	bool scanned;	    /* for the reader: asked for by its scan, not by a sample */
	bool unresponsive;  /* its mappings could not be read in time, at the last try */
	bool unsure;	    /* sideband records were lost: check before use */
	bool exit_lost,
		missing; /* for process_table_end_missing: its EXIT may be lost; it was not among the living */
	enum process_maps_state maps_state;
	uint64_t maps_asked_at;	  /* ns, the clock of the caller's `now`; for rate limits */
	uint64_t maps_read_at;	  /* the same; not 0: the mappings are good to use, also while ASKED
				     again */
	uint32_t maps_refreshes;  /* in a row that found nothing new: the next one waits longer */
	struct uw_memory *memory; /* /proc/PID/mem; may be NULL */
	int given_maps, given_mem; /* descriptors given by consent; -1: none (process_set_given) */
	bool consent_asked;	   /* for the reader: it was checked, and asked if possible */
	struct process_share share;
	/* for the emitter: the callstack of its last sample with its result and reason, and the writer_stack_generation() of it */
	uint32_t stack, stack_generation;
	uint8_t stack_result, stack_reason;
	uint64_t sampled_at; /* its first sample's time; 0: none yet */
	/* the rest is proc's */
	struct process_maps *maps; /* shared with forks until one of the two changes it */
	struct process_log *log;
	struct uw_space *space;	   /* cached snapshot; NULL when maps changed since */
	struct uw_module *jit;	   /* of all anonymous executable mappings of this incarnation */
	bool has_vm;		   /* a Java VM's library was mapped */
	bool has_stg;		   /* code of GHC was on a stack: for session/ */
	bool has_go;		   /* the same of Go's code on a thread's own stack */
	enum uw_language language; /* the interpreter that was mapped (module.h) */
	struct uw_module *script;  /* of its functions; NULL: none yet */
	struct process *origin; /* parent, if its mappings were not known at the fork: used if ours
				   never arrive */
	struct table threads;	/* tid -> struct process_thread * */
	uint32_t n_live, n_exited; /* threads */
	bool replaced; /* by another incarnation: an answer that comes now is not about this one */
	bool threads_known;	       /* no thread is missing in `threads` */
	struct process *older, *newer; /* order of use; NULL, NULL when not in the table */
	char *cmdline;		       /* NUL-separated as in /proc, or NULL */
	size_t cmdline_len;
	char *cgroup; /* its path; until known its parent's, or the one before an exec; NULL:
		       * not known */
};

struct process_table;
/* Of processes that have ended and have no samples in progress: removes all but the last @keep, and frees the memory descriptors
 * and snapshots of these. */
void process_table_release_ended(struct process_table *table, size_t keep);
/* Borrows @modules.  At most @max processes, and 4,096 processes that have ended.  Past the limit the
 * least recently used one is removed, those that have ended first. */
int process_table_new(struct uw_modules *modules, size_t max, struct process_table **ret_table);
struct process_table *process_table_free(struct process_table *table);
size_t process_table_count(const struct process_table *table);
/* Has a process mapped an interpreter that keeps its frames apart from the C stack, but for V8? */
bool process_table_interpreters(const struct process_table *table);
/* Bytes of the lists of mappings of all processes in all tables. */
size_t process_maps_held(void);
/* Bytes of all mappings, their snapshots, threads and processes. */
size_t process_bytes_held(void);
/* Removes the least recently used process, as if @max were reached.  False: @but is the only one. */
bool process_table_forget_one(struct process_table *table, const struct process *but);

/* The process of @pid, made (maps UNKNOWN) when it is new to us.  Borrowed; NULL only when out of
 * memory. */
struct process *process_get(struct process_table *table, uint32_t pid);
struct process *process_find(struct process_table *table, uint32_t pid); /* NULL: not known */
/* A thread's entry, made if new (comm of the process's main thread until known).  Borrowed until the
 * next record; NULL when out of memory, or past 65,536 threads. */
struct process_thread *process_thread_get(struct process *process, uint32_t tid);

/* The name that a sample of @time was taken under. */
static inline const char *process_thread_comm_at(const struct process_thread *thread, uint64_t time)
{
	return time < thread->renamed_at ? thread->before : thread->comm;
}

/* Records, in time order. */
int process_comm(struct process_table *table, uint32_t pid, uint32_t tid, const char *comm,
		 bool exec, uint64_t time);
int process_fork(struct process_table *table, uint32_t pid, uint32_t ppid, uint32_t tid,
		 uint32_t ptid);
int process_exit(struct process_table *table, uint32_t pid, uint32_t tid);
/* @exec: PROT_EXEC set; others only end what they cover. */
int process_mmap(struct process_table *table, uint32_t pid, uint64_t start, uint64_t len,
		 uint64_t offset, bool exec, const char *path, const struct uw_file_id *id);
/* Sideband records were lost: every process must be checked again before use, with the names of its threads (which may be those of a
 * program that it starts meanwhile). */
void process_table_unsure(struct process_table *table);

/* Afterwards: @pids are all processes that live, in ascending order.  A process from before the loss that is not among them twice
 * in a row has ended: its EXIT was lost.  Between two calls all records from before the first one were applied.  Returns how many
 * have ended. */
size_t process_table_end_missing(struct process_table *table, const uint32_t *pids, size_t n);

/* Marks that maps were asked for; records from now on are also kept for replay over the answer. */
void process_maps_asked(struct process *process, uint64_t now);
/* The answer: the text of /proc/PID/maps, or NULL (@error < 0) when it could not be read.
 * *ret_changed: the executable mappings are not what they were. */
int process_maps_answer(struct process_table *table, struct process *process, const char *text,
			size_t len, int error, uint64_t now, bool *ret_changed);
/* Should a refresh be asked for after a stack failed its checks at @now?  Rate-limited, backing
 * off. */
bool process_wants_refresh(const struct process *process, uint64_t now);

/* The snapshot of the executable mappings, made when there is none.  Borrowed (take a reference to
 * keep it). */
int process_space(struct process_table *table, struct process *process,
		  struct uw_space **ret_space);

/* Where @module is mapped (the lowest executable mapping of it), and how the mapping names its
 * file. */
struct process_mapping {
	uint64_t start, end, offset;
	struct uw_file_id id;
};
/* Which interpreter it runs, by the name of its file: "CPython 3.14", "CPython 3.13 without a GIL", "PHP 8.3"; "PHP" where it has no
 * version. */
void process_interpreter_name(const struct process *process, char *to, size_t room);
/* The address that load_request.vm has for the JIT module @module of @process. */
uint64_t process_vm_of_module(const struct process *process, const struct uw_module *module);
bool process_mapping_of(const struct process *process, const struct uw_module *module,
			struct process_mapping *ret_mapping);
/* Consumes @memory (procfs_memory_new); the next snapshot has it.  The first stays: an incarnation has one
 * address space.  A fork's child has its own, never the parent's: its snapshot is another struct
 * with the same key. */
void process_set_memory(struct process *process, struct uw_memory *memory);
/* Consumes the two descriptors, of the process's own maps and mem; -1, -1: those given before are no
 * longer usable. */
void process_set_given(struct process *process, int maps_fd, int mem_fd);
/* Consumes @cmdline (NUL-separated). */
void process_set_cmdline(struct process *process, char *cmdline, size_t len);
/* Consumes @cgroup; NULL: what is known stays.  The emitter writes a change. */
void process_set_cgroup(struct process *process, char *cgroup);
/* The pid as the process sees itself (procfs_status): JIT compilers name their perf map by it. */
int process_set_ns_pid(struct process_table *table, struct process *process, uint32_t ns_pid);

struct process *process_ref(struct process *process);
struct process *process_unref(struct process *process);
