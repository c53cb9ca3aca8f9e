/* loop.h - one epoll loop.  Thread: the one that runs it. A source is embedded in the struct of its
 * user, which container_of() finds.  Level-triggered.  A callback returns < 0 to end the loop with
 * that error; it may remove any source, its own too. */
#pragma once

#include <sys/epoll.h>

#include "base/util.h"

struct loop {
	int epoll_fd;
	bool quit;
	struct epoll_event ready[64]; /* removed sources are cleared out of here */
	int n_ready;
};

struct loop_source {
	int fd; /* -1: not in a loop */
	int (*ready)(struct loop_source *source, uint32_t events);
};

int loop_init(struct loop *l);
void loop_deinit(struct loop *l);
/* Borrows @source and its fd.  @events: EPOLLIN ... */
int loop_add(struct loop *l, struct loop_source *source, int fd, uint32_t events,
	     int (*ready)(struct loop_source *, uint32_t));
int loop_change(struct loop *l, struct loop_source *source, uint32_t events);
void loop_remove(struct loop *l, struct loop_source *source);
/* Waits at most @timeout_ms (-1: without a limit) and calls the ready sources. < 0: a callback's
 * error. */
int loop_run_once(struct loop *l, int timeout_ms);
/* Until loop_quit() or an error. */
int loop_run(struct loop *l);
void loop_quit(struct loop *l);

/* A timer: a timerfd source.  The callback gets the timer back by container_of(source, struct
 * loop_timer, source). */
struct loop_timer {
	struct loop_source source;
	int (*expired)(struct loop_timer *timer);
};
int loop_timer_add(struct loop *l, struct loop_timer *timer, uint64_t first_ns, uint64_t period_ns,
		   int (*expired)(struct loop_timer *));
/* @first_ns 0 stops it.  A timer with a period fires at whole multiples of it, the first time up to
 * a period earlier: so timers fire together, and wake the thread once. */
int loop_timer_set(struct loop_timer *timer, uint64_t first_ns, uint64_t period_ns);
void loop_timer_remove(struct loop *l, struct loop_timer *timer);
