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

/* A row of the whole run. */
struct top_total {
	uint64_t self_count, self_weight, count, weight;
};

/* The table of one interval: the packets that a memory sink received since the previous one. */
enum { TOP_HEADS = 3 };
struct top_view {
	const struct top_args *args;
	struct sink *sink;	    /* sink_memory_new(); owned */
	enum report_by by;	    /* from the options, then changed by keys */
	struct profile profile;	    /* of the interval on display */
	char heads[TOP_HEADS][256]; /* the first line of its table: whole, shorter, shortest */
	struct top_state before;    /* totals up to and including that interval */
	struct string_table names;  /* of rows so far: "NAME\nMODULE" */
	struct top_total *totals;   /* by name */
	size_t n_totals, room_totals;
	struct top_total whole; /* of all intervals; its total is not used */
	uint32_t n_intervals;
	enum report_sort sort;
	struct report_cursor cursor;
	char filter[64];   /* "": none */
	char callers[512]; /* the function that is shown with its callers; "": the table */
	bool printed;
	bool begun;  /* an interval has ended */
	bool typing; /* keys are text of the filter */
	bool keys;   /* standard input is read for keys */
	bool paused; /* new intervals are not shown */
	bool quit;   /* the same, until the end */
	bool help;
};

int top_view_init(struct top_view *view, const struct top_args *args);
void top_view_deinit(struct top_view *view);
/* Shows the interval in the sink and clears the sink.  One without samples is not shown once all processes of -p have ended. */
int top_view_show(struct top_view *view, const struct top_state *state);
/* After the last interval: the table of the whole run, by args->by, if it is not the one on display, "process 12 has
 * ended" of -p, and a line "whole run: ...".  Nothing with args->once. */
int top_view_end(struct top_view *view);
/* Acts on a key.  0; TOP_QUIT; < 0: the table cannot be shown.  Keys of several bytes arrive as these. */
enum { TOP_QUIT = 1 };
enum { TOP_UP = 'P' & 31, TOP_DOWN = 'N' & 31, TOP_PAGE_UP = 'B' & 31, TOP_PAGE_DOWN = 'F' & 31 };
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
/* Returns 0 without effect where standard input or output is not a terminal.  Call before threads are created:
 * they inherit the blocked signals. */
int top_keys_watch(struct top_keys *keys, struct top_view *view, struct loop *loop,
		   void (*quit)(void *arg), void *arg);
void top_keys_unwatch(struct top_keys *keys);

/* The daemon records; *own is freed once it has accepted.  @lacks, @kernel: as for record_ask_open().  Returns
 * the exit status; < 0 only with @kernel: the own session goes on without kernel frames. */
int top_ask(struct top_view *view, struct top_keys *keys, struct job *job, const char *lacks,
	    bool kernel, struct session **own);
