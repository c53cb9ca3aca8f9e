/* top-private.h - the parts of `perfwind top`; shared by top*.c only.  Thread: main.
 *
 *   top.c        options, the own session
 *   top_ask.c    the daemon's
 *   top_view.c   the table
 *   top_keys.c   what is typed */
#pragma once

#include "cli/job.h"
#include "trace/sink.h"
#include "session/session.h"
#include "profile/profile-export.h"

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

struct top_state {
	const char *event;
	double duration_s;
	uint64_t lost, dropped; /* samples, packets */
};

/* top_view.c: the table of what came into a memory sink since the one before. */
struct top_view {
	const struct top_args *args;
	struct sink *sink;	 /* sink_memory_new(); owned */
	enum report_by by;	 /* as asked for, then by keys */
	struct profile profile;	 /* of the interval that is shown */
	char head[256];		 /* its first line */
	struct top_state before; /* up to that interval */
	bool printed;
	bool keys;   /* somebody can press them */
	bool paused; /* what comes is passed over, that table stays */
	bool quit;   /* that too, until the end */
	bool help;
};

int top_view_init(struct top_view *view, const struct top_args *args);
void top_view_deinit(struct top_view *view);
/* Shows it and forgets what came before. */
int top_view_show(struct top_view *view, const struct top_state *state);
/* The same table once more: of another width, or by other rows. */
int top_view_draw(struct top_view *view);
/* 0; TOP_QUIT; < 0: it cannot be shown. */
enum { TOP_QUIT = 1 };
int top_view_key(struct top_view *view, char key);
/* It cannot be shown.  Whoever read our output may have seen enough (head): no failure worth a line.
 */
void top_view_failed(int r);

/* top_keys.c: what is typed while it runs, and what happens to the terminal.  Of the two loops that one of
 * them may have there, one at a time. */
struct top_keys {
	struct top_view *view;
	struct loop *loop; /* NULL: not watched */
	struct loop_source input, signals;
	void (*quit)(void *arg);
	void *arg;
};
/* Nothing, and 0, where nobody can press any.  Before threads are made: they inherit what is blocked. */
int top_keys_watch(struct top_keys *keys, struct top_view *view, struct loop *loop,
		   void (*quit)(void *arg), void *arg);
void top_keys_unwatch(struct top_keys *keys);

/* top_ask.c: the daemon records, and *own is freed.  @lacks, @kernel: as for record_ask_open().  The
 * exit status; < 0: only with @kernel: own rights do. */
int top_ask(struct top_view *view, struct top_keys *keys, struct job *job, const char *lacks,
	    bool kernel, struct session **own);
