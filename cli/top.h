/* top.h - the parts of `perfwind top` behind its options (cmd-top.c): table, keys, and the session of a
 * daemon.  Thread: main. */
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

/* The table of one interval: the packets that a memory sink received since the previous one. */
struct top_view {
	const struct top_args *args;
	struct sink *sink;	 /* sink_memory_new(); owned */
	enum report_by by;	 /* from the options, then changed by keys */
	struct profile profile;	 /* of the interval on display */
	char head[256];		 /* the first line of its table */
	struct top_state before; /* totals up to and including that interval */
	bool printed;
	bool keys;   /* standard input is read for keys */
	bool paused; /* new intervals are not shown */
	bool quit;   /* the same, until the end */
	bool help;
};

int top_view_init(struct top_view *view, const struct top_args *args);
void top_view_deinit(struct top_view *view);
/* Shows the interval in the sink and clears the sink. */
int top_view_show(struct top_view *view, const struct top_state *state);
/* Redraws the same interval, for another width or grouping. */
int top_view_draw(struct top_view *view);
/* Acts on a key.  0; TOP_QUIT; < 0: the table cannot be shown. */
enum { TOP_QUIT = 1 };
int top_view_key(struct top_view *view, char key);
/* Logs that the table cannot be shown (@r: -errno); a closed pipe (`top | head`) is not logged. */
void top_view_failed(int r);

/* Keys and the terminal's signals, in one loop at a time (the own session's or the daemon's). */
struct top_keys {
	struct top_view *view;
	struct loop *loop; /* NULL: not watched */
	struct loop_source input, signals;
	void (*quit)(void *arg);
	void *arg;
};
/* Returns 0 without effect where standard input or output is no terminal.  Call before threads are created:
 * they inherit the blocked signals. */
int top_keys_watch(struct top_keys *keys, struct top_view *view, struct loop *loop,
		   void (*quit)(void *arg), void *arg);
void top_keys_unwatch(struct top_keys *keys);

/* The daemon records; *own is freed once it has accepted.  @lacks, @kernel: as for record_ask_open().  Returns
 * the exit status; < 0 only with @kernel: the own session goes on without kernel frames. */
int top_ask(struct top_view *view, struct top_keys *keys, struct job *job, const char *lacks,
	    bool kernel, struct session **own);
