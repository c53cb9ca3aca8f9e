/* control.c - see control.h: the listening socket and the tick.  Thread: main.
 * A client is freed by its own event, by the tick, or with the socket, never inside a call of its session. */
#include <errno.h>
#include <sys/socket.h>
#include <time.h>

#include "base/error.h"
#include "daemon/control/client.h"

enum { MAX_ACCEPTS = 64 };

static void report_stopped(struct control *ctl)
{
	if (ctl->stopped)
		return;
	ctl->stopped = true;
	if (ctl->options.stopped)
		ctl->options.stopped(ctl->options.arg);
}

/* ---- connections ---- */

static int listener_ready(struct loop_source *source, uint32_t events)
{
	struct control *ctl = container_of(source, struct control, listener);

	(void)events;
	for (int i = 0; i < MAX_ACCEPTS; i++) {
		int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
			/* The listener would stay ready, and the loop would spin. */
			ctl->paused = true;
			(void)loop_change(ctl->loop, source, 0);
			(void)loop_timer_set(&ctl->tick, CONTROL_TICK_MS * NSEC_PER_MSEC,
					     CONTROL_TICK_MS * NSEC_PER_MSEC);
		}
		if (fd < 0)
			return 0;
		if (client_new(ctl, fd) < 0)
			ctl->counts.turned_away++;
	}
	return 0;
}

/* ---- time ---- */

static int tick(struct loop_timer *timer)
{
	struct control *ctl = container_of(timer, struct control, tick);
	uint64_t now = control_now_ms();
	struct client *next;

	if (ctl->paused) {
		ctl->paused = false;
		(void)loop_change(ctl->loop, &ctl->listener, EPOLLIN);
	}
	for (struct client *c = ctl->clients; c; c = next) {
		next = c->next;
		client_tick(c, now);
	}
	if (ctl->stop_by && (!ctl->n_clients || now > ctl->stop_by))
		report_stopped(ctl);
	return 0;
}

void control_stop(struct control *ctl)
{
	struct client *next;

	if (ctl->stop_by)
		return;
	ctl->stop_by = control_now_ms() + CONTROL_STOP_MS;
	loop_remove(ctl->loop, &ctl->listener);
	ctl->paused = false;
	for (struct client *c = ctl->clients; c; c = next) {
		next = c->next;
		if (c->state == CLIENT_ASKING)
			client_free(c);
		else
			client_stop(c);
	}
	(void)loop_timer_set(&ctl->tick, 1, CONTROL_TICK_MS * NSEC_PER_MSEC);
}

/* ---- beginning and end ---- */

int control_new(const struct control_options *options, struct loop *loop,
		struct control **ret_control)
{
	struct control *ctl = calloc(1, sizeof(*ctl));
	int r;

	if (!ctl) {
		(void)fd_close(options->fd);
		return fail(-ENOMEM);
	}
	ctl->options = *options;
	ctl->loop = loop;
	closer_init(&ctl->closer);
	ctl->listener.fd = ctl->tick.source.fd = -1;
	ctl->recordings = (struct recordings){
		.features = options->features, .shared = options->shared, .loop = loop};
	control_set_settings(ctl, &options->settings);
	r = loop_timer_add(loop, &ctl->tick, 0, 0, tick);
	if (r >= 0)
		r = loop_add(loop, &ctl->listener, options->fd, EPOLLIN, listener_ready);
	if (r < 0) {
		(void)control_free(ctl);
		return trace(r);
	}
	*ret_control = ctl;
	return 0;
}

struct control *control_free(struct control *ctl)
{
	if (!ctl)
		return NULL;
	while (ctl->clients)
		client_free(ctl->clients);
	loop_remove(ctl->loop, &ctl->listener);
	closer_pass(&ctl->closer, ctl->options.fd);
	closer_deinit(&ctl->closer);
	loop_timer_remove(ctl->loop, &ctl->tick);
	free(ctl);
	return NULL;
}

void control_set_settings(struct control *ctl, const struct settings *settings)
{
	recordings_set_settings(&ctl->recordings, settings);
}

void control_counts(const struct control *ctl, struct control_counts *ret_counts)
{
	*ret_counts = ctl->counts;
}
