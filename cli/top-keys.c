/* top-keys.c - see top_private.h.  Thread: main.
 *
 *   foreground ── SIGTSTP ──► terminal put back, stopped ── SIGCONT ──► foreground, or background: no keys
 *
 * Only who is in the foreground may change the terminal or read from it (SIGTTOU, SIGTTIN stop who does),
 * so standard input is in the loop only while keys are on.  A command has the terminal for itself: with
 * one there are none. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/top-private.h"
#include "base/error.h"

static void keys_off(struct top_keys *k)
{
	loop_remove(k->loop, &k->input);
	k->view->keys = false;
	terminal_restore();
}

/* What came of a key, or of drawing. */
static void follow(struct top_keys *k, int r)
{
	if (r == 0)
		return;
	if (r < 0)
		top_view_failed(r);
	k->view->quit = true;
	k->quit(k->arg);
}

/* What an arrow or the like sends is no key of ours: the place behind it.  ESC [ 1 ; 5 A */
static size_t behind_escape(const char *keys, size_t n, size_t i)
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
		keys_off(k); /* the terminal is gone */
	for (size_t i = 0; n > 0 && i < (size_t)n && !k->view->quit;) {
		if (keys[i] == '\033')
			i = behind_escape(keys, (size_t)n, i);
		else
			follow(k, top_view_key(k->view, keys[i++]));
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

/* By the signal itself, not SIGSTOP: who has no shell to wake them is not stopped by it. */
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
		(void)keys_on(k); /* SIGWINCH: no harm */
		if (k->view->head[0] && !k->view->quit && terminal_rows())
			follow(k, top_view_draw(k->view));
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
