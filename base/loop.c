/* loop.c - see loop.h.
 * A callback may remove sources of events that are already fetched: loop_remove() clears them from
 * the batch, so that no callback runs on a freed source. */
#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/loop.h"

int loop_init(struct loop *l)
{
	*l = (struct loop){0};
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return l->epoll_fd < 0 ? fail(-errno) : 0;
}

void loop_deinit(struct loop *l)
{
	l->epoll_fd = fd_close(l->epoll_fd);
}

int loop_add(struct loop *l, struct loop_source *source, int fd, uint32_t events,
	     int (*ready)(struct loop_source *, uint32_t))
{
	struct epoll_event ev = {.events = events, .data.ptr = source};

	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return fail(-errno);
	source->fd = fd;
	source->ready = ready;
	return 0;
}

int loop_change(struct loop *l, struct loop_source *source, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = source};

	return epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, source->fd, &ev) < 0 ? fail(-errno) : 0;
}

void loop_remove(struct loop *l, struct loop_source *source)
{
	if (source->fd < 0)
		return;
	(void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	source->fd = -1;
	for (int i = 0; i < l->n_ready; i++) {
		if (l->ready[i].data.ptr == source)
			l->ready[i].data.ptr = NULL;
	}
}

int loop_run_once(struct loop *l, int timeout_ms)
{
	int r = 0;

	l->n_ready = epoll_wait(l->epoll_fd, l->ready, ARRAY_SIZE(l->ready), timeout_ms);
	if (l->n_ready < 0) {
		l->n_ready = 0;
		return errno == EINTR ? 0 : fail(-errno);
	}
	for (int i = 0; i < l->n_ready && r >= 0; i++) {
		struct loop_source *source = l->ready[i].data.ptr;

		if (source)
			r = source->ready(source, l->ready[i].events);
	}
	l->n_ready = 0;
	return r < 0 ? trace(r) : 0;
}

int loop_run(struct loop *l)
{
	int r = 0;

	for (l->quit = false; !l->quit && r >= 0;)
		r = loop_run_once(l, -1);
	return r < 0 ? trace(r) : 0;
}

void loop_quit(struct loop *l)
{
	l->quit = true;
}

static int loop_timer_ready(struct loop_source *source, uint32_t events)
{
	struct loop_timer *timer = container_of(source, struct loop_timer, source);
	uint64_t n;

	(void)events;
	if (read(source->fd, &n, sizeof(n)) < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : fail(-errno);
	return timer->expired(timer);
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC)};
}

int loop_timer_set(struct loop_timer *timer, uint64_t first_ns, uint64_t period_ns)
{
	struct itimerspec its = {.it_interval = timespec_of(period_ns)};
	uint64_t first = 0;

	if (first_ns)
		first = clock_ns(CLOCK_MONOTONIC) + first_ns;
	if (first && period_ns)
		first -= first % period_ns;
	its.it_value = timespec_of(first);
	return timerfd_settime(timer->source.fd, TFD_TIMER_ABSTIME, &its, NULL) < 0 ? fail(-errno)
										    : 0;
}

int loop_timer_add(struct loop *l, struct loop_timer *timer, uint64_t first_ns, uint64_t period_ns,
		   int (*expired)(struct loop_timer *))
{
	_cleanup_(fd_closep) int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	int r;

	if (fd < 0)
		return fail(-errno);
	timer->expired = expired;
	r = loop_add(l, &timer->source, fd, EPOLLIN, loop_timer_ready);
	if (r < 0)
		return trace(r);
	(void)take_fd(fd);
	r = loop_timer_set(timer, first_ns, period_ns);
	if (r < 0)
		loop_timer_remove(l, timer);
	return trace(r);
}

void loop_timer_remove(struct loop *l, struct loop_timer *timer)
{
	int fd = timer->source.fd;

	loop_remove(l, &timer->source);
	(void)fd_close(fd);
}
