/* top.c - the table, the keys and the daemon's session of `perfwind top`; see top.h.  Thread: main.
 *
 * Each interval is a complete trace: profile/ parses its packets, then the packets are freed and the
 * incremental state is cleared.  Memory is bounded by one interval, and names that arrive late appear in the
 * next table.  The profile on display is kept, so that a key or a resize redraws at once. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/ask-run.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/top.h"
#include "profile/profile-text.h"

enum { DEFAULT_ROWS = 20 };
enum { HEAD_ROWS = 4 };		 /* around the table on a terminal */
enum { MAX_PACKETS = 64 << 20 }; /* bytes of one interval; later packets are counted as lost */

int top_view_init(struct top_view *view, const struct top_args *args)
{
	int r;

	*view = (struct top_view){.args = args, .by = args->by};
	r = sink_memory_new(&view->sink);
	if (r >= 0)
		sink_memory_limit(view->sink, MAX_PACKETS);
	return r < 0 ? trace(r) : 0;
}

void top_view_deinit(struct top_view *view)
{
	view->sink = sink_free(view->sink);
	profile_deinit(&view->profile);
}

static uint32_t rows_wanted(const struct top_view *view)
{
	int rows = terminal_rows();

	if (view->args->limit != UINT32_MAX)
		return view->args->limit;
	if (!rows)
		return DEFAULT_ROWS;
	return rows > HEAD_ROWS ? (uint32_t)(rows - HEAD_ROWS) : 1;
}

/* The first line.  Losses are counted since the previous interval, whether or not that was shown. */
static void make_head(struct top_view *view, const struct top_state *state)
{
	const struct top_state *before = &view->before;
	uint64_t dropped = state->dropped + view->sink->dropped, n = view->profile.n_samples;
	char number[32], *to = view->head;
	size_t room = sizeof(view->head), len;

	len = (size_t)snprintf(to, room, "%s sample%s in %.1f s (%.100s)", text_count(n, number),
			       n == 1 ? "" : "s", state->duration_s - before->duration_s,
			       state->event);
	if (state->lost > before->lost)
		len += (size_t)snprintf(to + len, room - len, ", %s lost in the kernel's rings",
					text_count(state->lost - before->lost, number));
	if (dropped > before->dropped)
		(void)snprintf(to + len, room - len,
			       ", more than there is room for: %s packets left out",
			       text_count(dropped - before->dropped, number));
}

static void finish_interval(struct top_view *view, const struct top_state *state)
{
	view->before = *state;
	view->before.event = NULL; /* borrowed */
	view->before.dropped += view->sink->dropped;
}

/* The first line, with a hint about the keys if the line has room. */
static void print_head(const struct top_view *view)
{
	static const char *const hints[] = {"  h: help", "  paused"};
	const char *hint = view->keys ? hints[view->paused] : "";
	bool fits = strlen(view->head) + strlen(hint) <= (size_t)terminal_columns();

	(void)printf("%s%s\n", view->head, fits ? hint : "");
}

static void print_help(const struct top_view *view)
{
	(void)printf("q         quit\n"
		     "space, p  pause the display; sampling continues\n"
		     "s, S      group rows by the next or the previous of:");
	for (size_t i = 0; report_by_names[i]; i++)
		(void)printf(i == view->by ? " [%s]" : " %s", report_by_names[i]);
	(void)printf("\nh, ?      this help; any key returns to the table\n");
}

int top_view_draw(struct top_view *view)
{
	const struct report_options how = {
		.by = view->by,
		.no_summary = true,
		.limit = rows_wanted(view),
		.width = terminal_columns(),
		.colour = terminal_colour(),
	};
	int r;

	if (terminal_rows())
		(void)fputs("\033[H\033[2J", stdout);
	else if (view->printed)
		(void)putchar('\n');
	view->printed = true;
	print_head(view);
	if (view->help)
		print_help(view);
	r = view->profile.n_samples && !view->help ? report_write(&view->profile, &how, stdout)
						   : text_finish(stdout);
	return r < 0 ? trace(r) : 0;
}

int top_view_show(struct top_view *view, const struct top_state *state)
{
	struct profile profile = {0};
	char error[256] = "";
	const void *data;
	size_t len;
	int r = 0;

	data = sink_memory_data(view->sink, &len);
	if (len && !view->paused && !view->quit)
		r = profile_parse(data, len, &profile, error, sizeof(error));
	sink_memory_clear(view->sink);
	if (r == -E2BIG) { /* skip this interval alone */
		log_error("top: this interval is too large to show: %s", error);
		r = 0;
	}
	if (r < 0)
		return trace(r);
	if (!view->paused && !view->quit) {
		profile_deinit(&view->profile);
		view->profile = profile;
		make_head(view, state);
		if (!view->help)
			r = top_view_draw(view);
	}
	finish_interval(view, state);
	return r < 0 ? trace(r) : 0;
}

int top_view_key(struct top_view *view, char key)
{
	enum { KINDS = REPORT_PID + 1 };
	bool was_help = view->help;

	view->help = false;
	switch (key) {
	case 'q':
	case 'Q':
		view->quit = true;
		return TOP_QUIT;
	case ' ':
	case 'p':
		view->paused = !view->paused;
		break;
	case 's':
		view->by = (view->by + 1) % KINDS;
		break;
	case 'S':
		view->by = (view->by + KINDS - 1) % KINDS;
		break;
	case 'h':
	case '?':
		view->help = !was_help;
		break;
	default:
		if (!was_help)
			return 0;
	}
	/* During the first interval only the help can be drawn. */
	return view->head[0] || view->help || was_help ? top_view_draw(view) : 0;
}

void top_view_failed(int r)
{
	struct pollfd p = {.fd = STDOUT_FILENO};

	if (poll(&p, 1, 0) != 1 || !(p.revents & POLLERR))
		log_error("top: %s", strerror(-r));
	terminal_output_reported();
}

/* ---- keys ----
 *
 *   foreground ── SIGTSTP ──► terminal restored, stopped ── SIGCONT ──► foreground, or background: no keys
 *
 * A background process that changes or reads the terminal is stopped (SIGTTOU, SIGTTIN), so standard input
 * is in the loop only while keys are on.  A profiled command owns the terminal: then there are no keys. */

static void keys_off(struct top_keys *k)
{
	loop_remove(k->loop, &k->input);
	k->view->keys = false;
	terminal_restore();
}

/* Acts on the result of a key or of drawing. */
static void handle_result(struct top_keys *k, int r)
{
	if (r == 0)
		return;
	if (r < 0)
		top_view_failed(r);
	k->view->quit = true;
	k->quit(k->arg);
}

/* Skips an escape sequence (arrow keys ...) and returns the index after it.  Example: ESC [ 1 ; 5 A */
static size_t skip_escape(const char *keys, size_t n, size_t i)
{
	if (++i == n || (keys[i] != '[' && keys[i] != 'O'))
		return i;
	while (++i < n && (keys[i] < '@' || keys[i] > '~'))
		;
	return i < n ? i + 1 : n;
}

static int input_ready(struct loop_source *source, uint32_t events)
{
	struct top_keys *k = container_of(source, struct top_keys, input);
	char keys[64];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));

	if (n <= 0 && (events & (EPOLLHUP | EPOLLERR)))
		keys_off(k); /* the terminal was closed */
	for (size_t i = 0; n > 0 && i < (size_t)n && !k->view->quit;) {
		if (keys[i] == '\033')
			i = skip_escape(keys, (size_t)n, i);
		else
			handle_result(k, top_view_key(k->view, keys[i++]));
	}
	return 0;
}

static int keys_on(struct top_keys *k)
{
	int r;

	if (!terminal_keys())
		return 0;
	k->view->keys = true;
	r = k->input.fd < 0 ? loop_add(k->loop, &k->input, STDIN_FILENO, EPOLLIN, input_ready) : 0;
	if (r < 0)
		keys_off(k);
	return r < 0 ? trace(r) : 0;
}

/* Raises SIGTSTP itself, not SIGSTOP: the kernel ignores it for an orphaned process group, which no shell
 * could continue. */
static void stop_here(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	(void)raise(SIGTSTP);
	(void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static int signal_ready(struct loop_source *source, uint32_t events)
{
	struct top_keys *k = container_of(source, struct top_keys, signals);
	int sig;

	(void)events;
	while ((sig = signals_next(source))) {
		if (sig == SIGTSTP) {
			keys_off(k);
			stop_here();
		}
		(void)keys_on(k); /* no effect when they are on (SIGWINCH) */
		if (k->view->head[0] && !k->view->quit && terminal_rows())
			handle_result(k, top_view_draw(k->view));
	}
	return 0;
}

int top_keys_watch(struct top_keys *k, struct top_view *view, struct loop *loop,
		   void (*quit)(void *arg), void *arg)
{
	static const int signals[] = {SIGTSTP, SIGCONT, SIGWINCH};
	int r;

	top_keys_unwatch(k);
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return 0;
	*k = (struct top_keys){.view = view,
			       .loop = loop,
			       .input.fd = -1,
			       .signals.fd = -1,
			       .quit = quit,
			       .arg = arg};
	r = signals_watch(loop, &k->signals, signals, ARRAY_SIZE(signals), signal_ready);
	if (r >= 0)
		r = keys_on(k);
	return r < 0 ? trace(r) : 0;
}

void top_keys_unwatch(struct top_keys *k)
{
	if (!k->loop)
		return;
	keys_off(k);
	signals_unwatch(k->loop, &k->signals);
	k->loop = NULL;
}

/* ---- through the daemon: it samples, and each RENEW clears its incremental state ---- */

struct top_asked {
	struct top_view *view;
	struct ask_run run;
	uint32_t pid; /* of the command */
};

static void fill_request(struct top_asked *a, Pb__ControlRequest *q)
{
	const struct top_args *args = a->view->args;

	q->has_version = q->has_machine = q->has_children = q->has_frequency = q->has_user_only =
		q->has_clock = q->has_command = q->has_kernel_needed = true;
	q->version = CONTROL_VERSION;
	q->machine = args->all;
	q->command = a->pid != 0;
	q->pids = q->command ? &a->pid : (uint32_t *)(uintptr_t)args->pids;
	q->n_pids = q->command ? 1 : args->n_pids;
	q->children = args->children || q->command;
	q->event = (char *)(uintptr_t)args->event;
	q->frequency = args->frequency;
	q->user_only = args->user_only;
	q->clock = CLOCK_MONOTONIC;
}

static int shown(void *arg, const Pb__ControlSummary *m)
{
	struct top_asked *a = arg;
	const struct top_state state = {
		.event = ask_event(a->run.ask),
		.duration_s = m->duration_s,
		.lost = m->lost_samples,
		.dropped = m->lost_packets,
	};
	int r = top_view_show(a->view, &state);

	if (r < 0)
		top_view_failed(r);
	return r;
}

static void quit(void *arg)
{
	struct top_asked *a = arg;

	ask_run_stop(&a->run);
}

int top_ask(struct top_view *view, struct top_keys *keys, struct job *job, const char *lacks,
	    bool kernel, struct session **own)
{
	Pb__ControlRequest request = PB__CONTROL_REQUEST__INIT;
	struct top_asked a = {.view = view, .pid = (uint32_t)job->spawn.pid};
	int r;

	a.run = (struct ask_run){.socket = view->args->socket,
				 .request = &request,
				 .sink = view->sink,
				 .job = job,
				 .shown = shown,
				 .arg = &a};
	*(view->args->once ? &a.run.duration : &a.run.interval) = view->args->interval;
	fill_request(&a, &request);
	request.note = (char *)(uintptr_t)lacks;
	request.kernel_needed = kernel;
	r = ask_run_open(&a.run);
	if (r == 0)
		*own = session_free(*own);
	if (r == 0 && !view->args->once && !job->command)
		(void)top_keys_watch(keys, view, &a.run.loop, quit, &a);
	r = r ? ask_run_refused(&a.run, lacks, kernel) : ask_run(&a.run);
	top_keys_unwatch(keys);
	ask_run_deinit(&a.run);
	return r;
}
