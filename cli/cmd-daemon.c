/* cmd-daemon.c - `perfwind daemon`: recordings on request at its control socket, and a producer of the tracing
 * service, until a signal ends it.  Thread: main.
 *
 *   options, then the file of settings ──► daemon (waits for the service) ──► loop ──► TERM: drain, answer, leave
 *
 * SIGHUP reads the file again; running sessions keep their settings.  The start is notified in two
 * ways: systemd gets a datagram (READY when commands can be taken, which does not need the
 * service to be there), and --notify-fd a byte when the service knows our data sources. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/peer.h"
#include "cli/cmd-daemon.h"
#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/signals.h"
#include "base/child.h"
#include "base/listen-fds.h"
#include "base/error.h"
#include "daemon/control/control.h"
#include "daemon/control/control-protocol.h"
#include "daemon/producer/daemon.h"
#include "perf/probe.h"
#include "session/rights-filter.h"
#include "session/rights.h"
#include "session/consent/consent.h"

void notify_state(const char *text)
{
	const char *name = getenv("NOTIFY_SOCKET");
	_cleanup_(fd_closep) int fd = -1;
	struct sockaddr_un a;
	socklen_t len;

	/* A path or an abstract name; vsock addresses are for virtual machines. */
	if (!name || (*name != '/' && *name != '@') || unix_address(name, &a, &len) < 0)
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		(void)sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT,
			     (const struct sockaddr *)&a, len);
}

void notify_reloading(void)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lu",
		       clock_ns(CLOCK_MONOTONIC) / 1000);
	notify_state(text);
}

int notify_check_fd(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return fail(-errno);
	if ((flags & O_ACCMODE) == O_RDONLY)
		return fail(-EBADF);
	return fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? fail(-errno) : 0;
}

/* What configs written for the stock producer name: their producer_name_filter and producers{} hold
 * for us too. */
#define PRODUCER_NAME "perfetto.traced_perf"

struct daemon_args {
	const char *socket, *config, *name, *shmem_size, *shmem_page, *control, *user, *hook_socket;
	uint32_t notify_fd;
};

struct daemon_run {
	struct daemon_args args;
	struct settings settings;
	struct loop loop;
	struct loop_source signals;
	struct daemon *daemon;
	struct control *control;  /* NULL: no control socket */
	const char *control_path; /* ours to take away; NULL: inherited, or none */
	const char *hook_path;	  /* the same, where we made it and not consent */
	int control_fd, hook_fd;  /* listening already, from before the user was changed; or -1 */
	int sweeper_fd;		  /* the sweeper waits for its end; or -1 */
	pid_t sweeper;
	struct consent *consent;
	unsigned n_running; /* of daemon and control, those that have not stopped */
	int notify_fd;	    /* -1: none, or notified */
	bool stopping;
};

#define AT(member) .offset = offsetof(struct daemon_args, member)
static const struct option_def defs[] = {
	TEXT("socket", 's', "NAME", socket,
	     "the service's producer socket: a path, or @NAME (default: "
	     "$PERFETTO_PRODUCER_SOCK_NAME, /run/perfetto/traced-producer.sock or, without "
	     "privileges, "
	     "/tmp/perfetto-producer)"),
	TEXT("config", 0, "FILE", config,
	     "settings, KEY = VALUE a line (default " SETTINGS_FILE "); read again on SIGHUP"),
	TEXT("shmem-size", 0, "BYTES", shmem_size,
	     "the size of the shared memory to request (K and M may follow)"),
	TEXT("shmem-page", 0, "BYTES", shmem_page, "the page size of the shared memory"),
	TEXT("producer-name", 0, "NAME", name,
	     "the name of this producer in trace configs (default " PRODUCER_NAME ")"),
	TEXT("control-socket", 0, "PATH", control,
	     "the socket for recordings on request (default: the descriptor \"control\" of "
	     "systemd, "
	     "else " CONTROL_SOCKET ")"),
	TEXT("user", 0, "NAME", user,
	     "become this user, with the needed capabilities (if started as root)"),
	TEXT("hook-socket", 0, "PATH", hook_socket,
	     "the socket at which processes that opted in answer (perfwind run;\ndefault: the "
	     "descriptor \"hook\" of systemd, else " HOOK_SOCKET "; @NAME: abstract)"),
	NUMBER("notify-fd", 0, OPTION_U32, "N", notify_fd, 1 << 20,
	       "write a byte to this descriptor and close it when the service knows the data "
	       "sources "
	       "(also: $TRACED_PERF_NOTIFY_FD)"),
	{0},
};

static const struct options options = {
	.command = "daemon",
	.usage = "[OPTIONS]",
	.description = "Records on request (control socket), and serves the data sources "
		       "linux.perf and\nperfetto.metatrace to a tracing service (Perfetto's "
		       "traced).  Waits for a service that is\nnot running yet.",
	.defs = defs,
	.examples = "# as the installed service\n"
		    "sudo systemctl enable --now perfwind\n\n"
		    "# without systemd: becomes the user perfwind after it has made its sockets\n"
		    "sudo useradd -r perfwind\n"
		    "sudo perfwind daemon --user perfwind &",
};

/* ---- settings ---- */

static int set_option(struct settings *settings, const char *key, const char *value, char *error,
		      size_t error_size)
{
	return value ? settings_set(settings, key, value, error, error_size) : 0;
}

/* The file, then the command line, which stands over the file, at a reload too. */
static int read_settings(const struct daemon_args *args, struct settings *ret, char *error,
			 size_t error_size)
{
	struct settings settings = settings_default;
	int r = settings_read(args->config, &settings, error, error_size);

	if (r >= 0)
		r = set_option(&settings, "shmem-size", args->shmem_size, error, error_size);
	if (r >= 0)
		r = set_option(&settings, "shmem-page", args->shmem_page, error, error_size);
	if (r >= 0)
		r = settings_check(&settings, error, error_size);
	if (r < 0)
		return trace(r);
	*ret = settings;
	return 0;
}

static void reload(struct daemon_run *run)
{
	char error[512];

	notify_reloading();
	if (read_settings(&run->args, &run->settings, error, sizeof(error)) < 0) {
		log_error("%s; the settings stay as they were", error);
	} else {
		daemon_set_settings(run->daemon, &run->settings);
		if (run->control)
			control_set_settings(run->control, &run->settings);
		consent_set_under_seccomp(run->consent, run->settings.consent_under_seccomp);
		log_info("settings were read again");
	}
	notify_state("READY=1");
}

/* ---- the sockets' files ---- */

/* The folder of our sockets is root's, and --user becomes another: a process that stays root, without
 * capabilities, waits for our end, whatever that is, and removes the files. */
struct sweep {
	int fd; /* a pipe that we hold the other end of */
	struct swept {
		const char *path; /* NULL: none */
		struct stat made;
	} files[2];
};

static void sweep(void *arg)
{
	const struct sweep *s = arg;
	char error[128], byte;
	struct stat now;

	/* child.h: it would be killed with us. */
	(void)prctl(PR_SET_PDEATHSIG, 0);
	(void)rights_filter(RIGHTS_DAEMON, false, error, sizeof(error));
	while (read(s->fd, &byte, 1) < 0 && errno == EINTR)
		;
	for (size_t i = 0; i < ARRAY_SIZE(s->files); i++) {
		const struct swept *f = &s->files[i];

		/* Another daemon may have put its own there meanwhile. */
		if (f->path && lstat(f->path, &now) == 0 && now.st_dev == f->made.st_dev &&
		    now.st_ino == f->made.st_ino)
			(void)unlink(f->path);
	}
}

static int start_sweeper(struct daemon_run *run)
{
	struct sweep s = {.files = {{.path = run->control_path}, {.path = run->hook_path}}};
	struct child child = {.name = "pw-sockets", .keep = {-1, -1}, .run = sweep, .arg = &s};
	int ends[2], r;

	for (size_t i = 0; i < ARRAY_SIZE(s.files); i++)
		if (s.files[i].path && lstat(s.files[i].path, &s.files[i].made) < 0)
			return fail(-errno);
	if (!run->control_path && !run->hook_path)
		return 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return fail(-errno);
	child.keep[0] = s.fd = ends[0];
	r = child_start(&child, &run->sweeper);
	(void)fd_close(ends[0]);
	run->sweeper_fd = r < 0 ? fd_close(ends[1]) : ends[1];
	return r < 0 ? trace(r) : 0;
}

static void remove_sockets(struct daemon_run *run)
{
	if (run->control_path)
		(void)unlink(run->control_path);
	if (run->hook_path)
		(void)unlink(run->hook_path);
	if (run->sweeper_fd < 0)
		return;
	run->sweeper_fd = fd_close(run->sweeper_fd);
	(void)waitpid(run->sweeper, NULL, 0);
}

/* ---- events ---- */

static void serving(void *arg)
{
	struct daemon_run *run = arg;

	notify_state("STATUS=serving the tracing service");
	if (run->notify_fd < 0)
		return;
	/* As the stock producer notifies the process that started it. */
	if (write_all(run->notify_fd, "1", 1) < 0)
		log_error("the descriptor of --notify-fd cannot be written to");
	run->notify_fd = fd_close(run->notify_fd);
}

static void lost(void *arg)
{
	(void)arg;
	notify_state("STATUS=waiting for the tracing service");
}

static void stopped(void *arg)
{
	struct daemon_run *run = arg;

	if (!--run->n_running)
		loop_quit(&run->loop);
}

static int signal_ready(struct loop_source *source, uint32_t events)
{
	struct daemon_run *run = container_of(source, struct daemon_run, signals);
	int sig;

	(void)events;
	while ((sig = signals_next(source))) {
		if (sig == SIGHUP) {
			reload(run);
			continue;
		}
		if (run->stopping) { /* a second one: at once */
			consent_unlink(run->consent);
			remove_sockets(run);
			_exit(128 + sig);
		}
		run->stopping = true;
		notify_state("STOPPING=1");
		daemon_stop(run->daemon);
		if (run->control)
			control_stop(run->control);
	}
	return 0;
}

/* ---- the command ---- */

/* From the option or the environment; it must be open, or we would later write to a stranger's. */
static int choose_notify_fd(struct daemon_run *run)
{
	const char *env = getenv("TRACED_PERF_NOTIFY_FD");
	uint64_t fd = run->args.notify_fd;

	if (fd == UINT32_MAX && (!env || !*env))
		return 0;
	if (fd == UINT32_MAX && parse_u64(env, 10, INT32_MAX, &fd) < 0) {
		log_error("TRACED_PERF_NOTIFY_FD is '%.32s', which is not a descriptor", env);
		return -EINVAL;
	}
	if (notify_check_fd((int)fd) < 0) {
		log_error("descriptor %lu, to be notified, is not open for writing", fd);
		return -EBADF;
	}
	run->notify_fd = (int)fd;
	return 0;
}

/* ---- rights ---- */

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* A socket that fails is tried again, and reported, as that user. */
static void listen_first(const char *handed, const char *arg, const char *usual, int *ret_fd,
			 const char **ret_path)
{
	const char *path = arg ? arg : usual;
	int fd;

	if (!arg && listen_fds_find(handed, &fd) != LISTEN_FDS_NONE)
		return;
	if (listen_at(path, 0666, ret_fd) >= 0 && *path != '@')
		*ret_path = path;
}

/* The folder of our sockets is root's, which --user is not: they are made before it is changed. */
static int listen_as_root(struct daemon_run *run)
{
	const struct daemon_args *args = &run->args;

	if (!args->user || geteuid() != 0)
		return 0;
	if (!args->control || !args->hook_socket)
		(void)mkdir(HOOK_FOLDER, 0755);
	listen_first("control", args->control, CONTROL_SOCKET, &run->control_fd,
		     &run->control_path);
	listen_first("hook", args->hook_socket, HOOK_SOCKET, &run->hook_fd, &run->hook_path);
	return start_sweeper(run);
}

/* Before any thread and any descriptor of our own, but the sockets of listen_as_root(). */
static int reduce_rights(const struct daemon_run *run, char *error, size_t size)
{
	int keep[6];
	struct rights_options o = {
		.user = run->args.user,
		.direct = run->settings.direct,
		.keep_fds = keep,
	};
	static const char *const names[] = {"control", "hook"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		o.n_keep_fds += listen_fds_find(names[i], &keep[o.n_keep_fds]) == 0;
	if (run->control_fd >= 0)
		keep[o.n_keep_fds++] = run->control_fd;
	if (run->hook_fd >= 0)
		keep[o.n_keep_fds++] = run->hook_fd;
	if (run->sweeper_fd >= 0)
		keep[o.n_keep_fds++] = run->sweeper_fd;
	if (run->notify_fd > 2)
		keep[o.n_keep_fds++] = run->notify_fd;
	qsort(keep, o.n_keep_fds, sizeof(*keep), by_number);
	return rights_reduce(&o, error, size);
}

static int filter_calls(const struct daemon_run *run, char *error, size_t size)
{
	return run->settings.system_call_filter
		       ? rights_filter(RIGHTS_DAEMON, log_level >= LOG_LEVEL_VERBOSE, error, size)
		       : 0;
}

static void log_privileges(const struct daemon_run *run)
{
	char names[128];

	rights_names(names, sizeof(names));
	log_verbose("rights: %s; system calls are %s", *names ? names : "none",
		    run->settings.system_call_filter ? "filtered" : "not filtered");
}

/* ---- the control socket ---- */

/* 0 and a descriptor; > 0: there is none, which was reported. */
static int listen_control(struct daemon_run *run, int *ret_fd)
{
	const char *path = run->args.control ? run->args.control : CONTROL_SOCKET;
	int r = run->args.control ? LISTEN_FDS_NONE : listen_fds_find("control", ret_fd);

	if (run->control_fd >= 0) {
		*ret_fd = take_fd(run->control_fd);
		return 0;
	}
	if (r < 0)
		log_error("the descriptor handed over as \"control\" is not a listening socket");
	if (r != LISTEN_FDS_NONE)
		return r;
	r = listen_at(path, 0666, ret_fd);
	if (r >= 0) {
		run->control_path = path;
		return 0;
	}
	if (run->args.control)
		log_error("%s: %s", path, strerror(-r));
	else
		log_info("no recordings on request: %s: %s (%s--control-socket PATH names another "
			 "socket)",
			 path, strerror(-r),
			 r == -EACCES || (r == -ENOENT && geteuid()) ? "sudo perfwind daemon; or "
								     : "");
	return run->args.control ? r : LISTEN_FDS_NONE;
}

static int start_control(struct daemon_run *run, const struct features *features)
{
	struct control_options o = {
		.settings = run->settings,
		.features = *features,
		.shared = daemon_shared(run->daemon),
		.stopped = stopped,
		.arg = run,
	};
	int r = listen_control(run, &o.fd);

	if (r != 0)
		return r < 0 ? trace(r) : 0;
	r = control_new(&o, &run->loop, &run->control);
	run->n_running += r >= 0;
	return r < 0 ? trace(r) : 0;
}

/* From the start, so that answers without a request are refused. */
static int open_consent(struct daemon_run *run, const struct features *features)
{
	struct consent_options o = {
		.socket = run->args.hook_socket,
		.listen_fd = -1,
		.under_seccomp = run->settings.consent_under_seccomp,
		.features = *features,
	};
	char error[512];
	int r = 0;

	if (run->hook_fd >= 0)
		o.listen_fd = take_fd(run->hook_fd);
	else if (!o.socket)
		r = listen_fds_find("hook", &o.listen_fd);

	if (r < 0) {
		log_error("the descriptor handed over as \"hook\" is not a listening socket");
		return trace(r);
	}
	r = consent_new(&o, &run->loop, &run->consent);
	if (r < 0)
		return trace(r);
	r = consent_open(run->consent, error, sizeof(error));
	if (r >= 0)
		return 0;
	if (o.socket) {
		log_error("%s", error);
		return trace(r);
	}
	log_info("no process can opt in to profiling: %s (--hook-socket PATH names another "
		 "socket)",
		 error);
	return 0;
}

static int start(struct daemon_run *run)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct daemon_options o = {
		.socket = run->args.socket,
		.producer_name = run->args.name ? run->args.name : PRODUCER_NAME,
		.settings = run->settings,
		.privileged = rights_held(),
		.beyond_user = rights_beyond_user(),
		.serving = serving,
		.lost = lost,
		.stopped = stopped,
		.arg = run,
	};
	char error[512];
	int r = probe_features(&o.features, error, sizeof(error));

	if (r < 0) {
		log_error("%s", error);
		return r;
	}
	child_landlock(o.features.has[FEATURE_LANDLOCK]);
	/* What is looked up once is by now.  Before any process is made, so that each is under the list. */
	r = filter_calls(run, error, sizeof(error));
	if (r < 0) {
		log_error("%s", error);
		return r;
	}
	r = loop_init(&run->loop);
	if (r >= 0)
		r = signals_watch(&run->loop, &run->signals, signals, ARRAY_SIZE(signals),
				  signal_ready);
	if (r >= 0)
		r = open_consent(run, &o.features);
	o.consent = run->consent;
	if (r >= 0)
		r = daemon_new(&o, &run->loop, &run->daemon);
	run->n_running = r >= 0;
	if (r >= 0)
		r = start_control(run, &o.features);
	if (r < 0)
		log_error("cannot start: %s", strerror(-r));
	else
		log_privileges(run);
	return r;
}

static void deinit(struct daemon_run *run)
{
	run->control = control_free(run->control);
	run->daemon = daemon_free(run->daemon);
	run->consent = consent_free(run->consent);
	remove_sockets(run);
	signals_unwatch(&run->loop, &run->signals);
	(void)fd_close(run->notify_fd);
	loop_deinit(&run->loop);
}

static int run_daemon(int argc, char **argv)
{
	struct daemon_run run = {.args.notify_fd = UINT32_MAX,
				 .control_fd = -1,
				 .hook_fd = -1,
				 .sweeper_fd = -1,
				 .signals.fd = -1,
				 .loop.epoll_fd = -1,
				 .notify_fd = -1};
	char error[512];
	int r, n;

	r = options_parse(&options, argc, argv, &run.args, &n);
	if (r)
		return options_exit_status(r);
	r = read_settings(&run.args, &run.settings, error, sizeof(error));
	if (r < 0) {
		log_error("%s", error);
		return r == -EINVAL ? 2 : 1;
	}
	r = choose_notify_fd(&run);
	if (r < 0)
		return 2;
	r = listen_as_root(&run);
	if (r < 0) {
		log_error("cannot start: %s", strerror(-r));
		remove_sockets(&run);
		return 1;
	}
	r = reduce_rights(&run, error, sizeof(error));
	if (r < 0) {
		log_error("%s", error);
		remove_sockets(&run);
		return 1;
	}
	r = start(&run);
	if (r >= 0) {
		notify_state("READY=1\nSTATUS=waiting for the tracing service");
		r = loop_run(&run.loop);
		if (r < 0)
			log_error("the loop: %s", strerror(-r));
	}
	deinit(&run);
	return r < 0 ? 1 : 0;
}

const struct command command_daemon = {"daemon",
				       "record on request of other users; serve Perfetto's traced",
				       run_daemon, &options};
