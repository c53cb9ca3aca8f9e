/* top_private.h - the parts of `perfwind top`; shared by top*.c only.  Thread: main. */
#pragma once

#include "cli/job.h"
#include "daemon/out/sink.h"
#include "daemon/session.h"
#include "profile/export.h"

enum { TOP_PIDS = 4096 };

struct top_args {
	bool all, children, user_only, once, ask, no_ask;
	bool under_seccomp;
	const char *event, *socket, *hook_socket;
	uint64_t frequency;
	double interval;
	enum report_by by;
	uint32_t limit;
	uint32_t pids[TOP_PIDS];
	size_t n_pids;
};

/* top_view.c: the table of what came into a memory sink since the one before. */
struct top_view {
	const struct top_args *args;
	struct sink *sink;	/* sink_memory_new(); owned */
	double shown_s;		/* of the recording's duration, up to the interval before */
	uint64_t lost, dropped; /* up to the interval before */
	bool printed;
};

struct top_state {
	const char *event;
	double duration_s;
	uint64_t lost, dropped; /* samples, packets */
};

int top_view_init(struct top_view *view, const struct top_args *args);
void top_view_deinit(struct top_view *view);
/* Shows it and forgets it. */
int top_view_show(struct top_view *view, const struct top_state *state);
/* It cannot be shown.  Whoever read our output may have seen enough (head): no failure worth a line.
 */
void top_view_failed(int r);

/* top_ask.c: the daemon records, and *own is freed.  @lacks, @kernel: as for record_ask_open().  The
 * exit status; < 0: only with @kernel: own rights do. */
int top_ask(struct top_view *view, struct job *job, const char *lacks, bool kernel,
	    struct session **own);
