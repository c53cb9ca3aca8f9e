/* trace-clones.h - snapshots of a trace session that goes on (trigger_config: CLONE_SNAPSHOT).  Thread: main.
 *
 *   trigger ─► WAITING (stop_delay_ms) ─► DUE ─► FLUSHING ─► WRITING, in a forked process (pw-clone) ─► its result
 *
 * The process has the buffers as they are at the fork: the session overwrites its own meanwhile, and a slow disk holds
 * up that process only. */
#pragma once

#include "base/loop.h"
#include "trace/sink.h"
#include "tracing/triggers.h"

enum { TRACE_CLONES = 16 }; /* that wait or are written at once */

struct trace_clone_trigger {
	char name[TRIGGER_NAME_MAX + 1];
	uint32_t uid; /* of the process that sent it */
	uint64_t at;  /* CLOCK_BOOTTIME, ns */
};

struct trace_clone_result {
	int error; /* 0, or -errno: the file ends in its last whole packet */
	uint64_t bytes;
	struct sink_count written;
};

enum { TRACE_CLONES_BUSY = 1 };
struct trace_clone_calls {
	/* Begins a flush, at the end of which trace_clones_flushed() is called; that may be before it returns.
	 * TRACE_CLONES_BUSY: one is in progress, which ends in the same call.  < 0: no flush is possible. */
	int (*flush)(void *arg);
	/* A new file for a snapshot: its descriptor, for the caller to close, and its name.  < 0: -errno. */
	int (*open)(void *arg, char *name, size_t size);
	/* In the forked process: writes all to @fd, which it closes, and sets bytes and written.  < 0: -errno. */
	int (*write)(void *arg, const struct trace_clone_trigger *trigger, int fd,
		     struct trace_clone_result *ret_result);
	/* Of each snapshot, from the loop; @name: "" where no file could be made. */
	void (*written)(void *arg, const char *name, const struct trace_clone_result *result);
	void *arg;
};

struct trace_clones;
/* Borrows @loop.  -ENOMEM. */
int trace_clones_new(const struct trace_clone_calls *calls, struct loop *loop,
		     struct trace_clones **ret_clones);
/* Snapshots that are being written are cut off. */
struct trace_clones *trace_clones_free(struct trace_clones *clones);
/* A snapshot in @delay_ms.  -EBUSY: there are TRACE_CLONES already. */
int trace_clones_add(struct trace_clones *clones, const struct trace_clone_trigger *trigger,
		     uint32_t delay_ms);
/* These accept NULL: there is none.  The flush has ended. */
void trace_clones_flushed(struct trace_clones *clones);
/* The session ends, and all its packets are in the buffers: snapshots that wait are written now. */
void trace_clones_finish(struct trace_clones *clones);
/* How many wait or are being written. */
size_t trace_clones_pending(const struct trace_clones *clones);
