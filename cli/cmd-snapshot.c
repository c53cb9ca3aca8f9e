/* cmd-snapshot.c - `perfwind snapshot`: a running flight recorder writes what it holds.  Thread: main.
 *
 *   /proc/net/unix: the listener at @perfwind-recorder-PID ─► checked ─► FILE opened ─► request ─► answer ─► --exec
 *   --daemon: the daemon's recorder, over its control socket. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/ask.h"
#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/duration.h"
#include "cli/flight-protocol.h"
#include "cli/job.h"
#include "base/error.h"
#include "base/fd-message.h"
#include "base/peer.h"
#include "daemon/control/control-protocol.h"
#include "profile/profile-text.h"
#include "trace/sink.h"

enum {
	ANSWER_MS = 120000,
	CONNECT_MS =
		2000, /* all connections together: a listener that does not accept has taken the name */
	NET_UNIX_MAX = 16 << 20,
	RECORDERS_NAMED = 8,
	DAEMON_PIECE = 256 << 10,
};

struct snapshot_command {
	const char *output, *exec, *socket;
	bool daemon, text, records;
	uint64_t last_ns, arm_ns;
	uint32_t pid;
};

struct recorders {
	size_t n;
	uint32_t pids[RECORDERS_NAMED];
};

static int set_time(uint64_t *to, const char *option, const char *value)
{
	if (duration_parse(value, "s", to) == 0)
		return 0;
	log_error("snapshot: --%s %.64s: it is a time like 30s (units: " DURATION_UNITS ")", option,
		  value);
	return -EINVAL;
}

static int set_last(void *to, const char *value)
{
	return set_time(&((struct snapshot_command *)to)->last_ns, "last", value);
}

static int set_arm(void *to, const char *value)
{
	return set_time(&((struct snapshot_command *)to)->arm_ns, "arm", value);
}

#define AT(member) .offset = offsetof(struct snapshot_command, member)
static const struct option_def defs[] = {
	TEXT("output", 'o', "FILE", output,
	     "write here (an existing one becomes FILE.old; default: next to the recorder's FILE, "
	     "as "
	     "FILE-1.pftrace, -2 ...)"),
	CALL("last", 0, "TIME", set_last, "only the samples of this time: 30s, 10min"),
	CALL("arm", 0, "TIME", set_arm,
	     "a recorder with --armed samples for this time from now; then the snapshot is taken"),
	NUMBER("pid", 'p', OPTION_U32, "PID", pid, INT32_MAX,
	       "the perfwind that records (default: the only one of yours)"),
	FLAG("daemon", 0, daemon,
	     "the daemon's flight recorder (recorder-size in perfwind.conf; FILE defaults "
	     "to " DEFAULT_TRACE ")"),
	OPTION_CONTROL_SOCKET(socket),
	FLAG("str", 0, text,
	     "then also write samples and tasks as text, to FILE with the suffix .str (perfwind "
	     "export --to str)"),
	FLAG("bin", 0, records, "the same as records to be mapped, to FILE with the suffix .bin"),
	TEXT("exec", 0, "COMMAND", exec,
	     "then run this program with one argument, the file's name (no shell; of another "
	     "user's "
	     "recorder with -o only)"),
	{0},
};

static const struct options options = {
	.command = "snapshot",
	.usage = "[OPTIONS]",
	.description =
		"Writes what a flight recorder holds (perfwind record --flight-recorder) to a "
		"trace.\nThe recording goes on.",
	.details =
		{"The samples are those before the request.  A request during the writing of a "
		 "snapshot gets that snapshot: its name is printed, and -o FILE is not made.",
		 "A recorder serves its own user and root.  It is found by an abstract socket, so "
		 "both must be in one network namespace; SIGUSR2 works from anywhere.",
		 "The exit status is 0, 1 if there is no snapshot, 2 for wrong usage, or the "
		 "status of COMMAND."},
	.defs = defs,
	.examples =
		"# the last half minute before a spike\n"
		"sudo perfwind record -a -F 49 --flight-recorder 64M &\n"
		"sudo perfwind snapshot --last 30s -o spike.pftrace\n"
		"sudo perfwind report spike.pftrace\n\n"
		"# sample nothing until it matters, then for 10 seconds\n"
		"sudo perfwind record -a --flight-recorder 64M --armed &\n"
		"sudo perfwind snapshot --arm 10s -o now.pftrace\n\n"
		"# of the daemon's flight recorder (recorder-size = 64M in /etc/perfwind.conf)\n"
		"sudo perfwind snapshot --daemon --last 5min -o before.pftrace\n\n"
		"# also as text and as records (docs/snapshot-format.md)\n"
		"sudo perfwind snapshot --str --bin -o spike.pftrace\n\n"
		"# of your own recorder (record -p PID --flight-recorder 64M): hand the file to a "
		"program\n"
		"perfwind snapshot --exec /usr/local/bin/upload-trace",
	.max_arguments = 0,
};

/* ---- the recorder ---- */

/* @until: CLOCK_MONOTONIC, ns.  -ESRCH: no recorder with this pid; -EPERM: of another user; -EAGAIN: it does not accept. */
static int connect_to(uint32_t pid, uint64_t until, int *ret_fd, uid_t *ret_owner)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC), us = now < until ? (until - now) / 1000 : 0;
	_cleanup_(fd_closep) int fd = -1;
	char name[FLIGHT_SOCKET_MAX];
	struct ucred peer;
	int r;

	(void)snprintf(name, sizeof(name), FLIGHT_SOCKET, pid);
	r = unix_connect(name, 0, max_u64(us, 1), &peer, &fd);
	if (r < 0)
		return r == -ECONNREFUSED ? -ESRCH : fail(r);
	if (peer.pid != (pid_t)pid) /* another process has taken the name */
		return -ESRCH;
	if (peer.uid != geteuid() && geteuid() != 0)
		return -EPERM;
	*ret_fd = take_fd(fd);
	*ret_owner = peer.uid;
	return 0;
}

static uint64_t connect_until(void)
{
	return clock_ns(CLOCK_MONOTONIC) + CONNECT_MS * NSEC_PER_MSEC;
}

static void add_recorder(struct recorders *list, const char *digits, uint64_t until)
{
	_cleanup_(fd_closep) int fd = -1;
	char number[16];
	uint64_t pid;
	uid_t owner;

	(void)snprintf(number, sizeof(number), "%.*s", (int)strcspn(digits, "\n"), digits);
	if (parse_u64(number, 10, INT32_MAX, &pid) < 0 ||
	    connect_to((uint32_t)pid, until, &fd, &owner) < 0 || owner != geteuid())
		return;
	for (size_t i = 0; i < list->n && i < RECORDERS_NAMED; i++)
		if (list->pids[i] == pid)
			return;
	if (list->n < RECORDERS_NAMED)
		list->pids[list->n] = (uint32_t)pid;
	list->n++;
}

/* Connected sockets of a listener have its name too: each pid counts once. */
static int find_recorders(struct recorders *list)
{
	static const char prefix[] = " @perfwind-recorder-";
	_cleanup_(freep) char *text = NULL;
	uint64_t until = connect_until();
	int r = read_file("/proc/net/unix", NET_UNIX_MAX, &text, NULL);

	if (r < 0)
		return trace(r);
	for (const char *at = text; (at = strstr(at, prefix)); at += sizeof(prefix) - 1)
		add_recorder(list, at + sizeof(prefix) - 1, until);
	return 0;
}

/* < 0: reported. */
static int choose_recorder(struct snapshot_command *command)
{
	struct recorders list = {0};
	char pids[RECORDERS_NAMED * 12] = "";
	size_t len = 0;
	int r = find_recorders(&list);

	if (r < 0) {
		log_error("snapshot: /proc/net/unix: %s (-p PID names the recorder)", strerror(-r));
		return r;
	}
	if (list.n == 1) {
		command->pid = list.pids[0];
		return 0;
	}
	if (!list.n) {
		log_error("snapshot: no flight recorder of yours is running (perfwind record "
			  "--flight-recorder 64M ...)");
		return -ESRCH;
	}
	for (size_t i = 0; i < min_u64(list.n, RECORDERS_NAMED); i++)
		len += (size_t)snprintf(pids + len, sizeof(pids) - len, " %u", list.pids[i]);
	log_error("snapshot: several flight recorders are running: choose one by -p:%s%s", pids,
		  list.n > RECORDERS_NAMED ? " ..." : "");
	return -EINVAL;
}

/* ---- the request ---- */

/* @arm_ns: see struct flight_request. */
static int ask(int fd, const struct snapshot_command *command, uint64_t arm_ns, struct sink *file,
	       struct flight_answer *ret)
{
	struct flight_request request = {
		.version = FLIGHT_VERSION,
		.wants_file = !file,
		.last_ns = command->last_ns,
		.arm_ns = arm_ns,
	};
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	int output = file ? sink_fd(file) : -1;
	ssize_t n;

	if (file)
		(void)snprintf(request.name, sizeof(request.name), "%s", command->output);
	request.asked_at = clock_ns(CLOCK_MONOTONIC);
	n = fd_message_send(fd, &request, sizeof(request), &output, file ? 1 : 0, 0);
	if (n < 0)
		return fail((int)n);
	while (poll(&pfd, 1, ANSWER_MS) < 0 && errno == EINTR)
		;
	if (!pfd.revents)
		return fail(-ETIMEDOUT);
	n = recv(fd, ret, sizeof(*ret), MSG_WAITALL);
	if (n < 0)
		return fail(-errno);
	if (n != sizeof(*ret) || ret->version != FLIGHT_VERSION ||
	    !memchr(ret->name, 0, sizeof(ret->name)))
		return fail(-EPROTO);
	return ret->error < 0 ? ret->error : 0;
}

static void report(const struct flight_answer *answer)
{
	char samples[32], size[32];

	if (answer->joined)
		log_info("snapshot: one was in progress already: %s", answer->name);
	else
		log_info("snapshot: %s samples, %s, taken within %.1f ms: %s",
			 text_count(answer->samples, samples), text_size(answer->bytes, size),
			 (double)answer->cut_ns / NSEC_PER_MSEC, answer->name);
}

static const char *reason(int r)
{
	return r == -ESRCH ? "it is not a flight recorder (perfwind record --flight-recorder), or "
			     "in another "
			     "network namespace"
	       : r == -EOPNOTSUPP ? "it samples all the time: --arm is for record --armed"
	       : r == -EPERM	  ? "it belongs to another user"
	       : r == -EAGAIN	  ? "it does not accept connections"
	       : r == -EPROTO	  ? "the recorder has ended, or is of another version"
	       : r == -ECANCELED  ? "the recording ended first: its trace holds the samples"
				  : strerror(-r);
}

static int refused(const struct snapshot_command *command, int r)
{
	log_error("snapshot of process %u: %s", command->pid, reason(r));
	return 1;
}

static int run_command(const struct snapshot_command *command, const char *name)
{
	(void)fflush(NULL);
	(void)execlp(command->exec, command->exec, name, (char *)NULL);
	log_error("%s: %s", command->exec, strerror(errno));
	return errno == ENOENT ? 127 : 126;
}

/* What follows the copy: the other forms of the file, then the program. */
static int use_file(const struct snapshot_command *command, const char *name)
{
	static const char *const forms[] = {"str", "bin"};
	const bool wanted[] = {command->text, command->records};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		const char *words[] = {"export", "--to", forms[i], name, NULL};

		if (wanted[i] && command_export.run(4, (char **)(uintptr_t)words) != 0)
			return 1;
	}
	return command->exec ? run_command(command, name) : 0;
}

static bool uses_file(const struct snapshot_command *command)
{
	return command->exec || command->text || command->records;
}

/* @owner: of the recorder.  No name that another user chose is opened or handed on. */
static int hand_over(const struct snapshot_command *command, const struct flight_answer *answer,
		     uid_t owner)
{
	if (command->output && !answer->joined)
		return use_file(command, command->output);
	if (owner == geteuid())
		return use_file(command, answer->name);
	log_error("snapshot: %s: the file is not -o, but one of user %u",
		  command->exec	  ? "--exec"
		  : command->text ? "--str"
				  : "--bin",
		  owner);
	return 1;
}

/* Lets the recorder sample for --arm, and waits for its end. */
static int sample(const struct snapshot_command *command)
{
	_cleanup_(fd_closep) int fd = -1;
	struct flight_answer answer;
	struct timespec wait = {(time_t)(command->arm_ns / NSEC_PER_SEC),
				(long)(command->arm_ns % NSEC_PER_SEC)};
	uid_t owner;
	int r = connect_to(command->pid, connect_until(), &fd, &owner);

	if (r >= 0)
		r = ask(fd, command, command->arm_ns, NULL, &answer);
	if (r < 0)
		return trace(r);
	log_info("sampling since %.1f ms after the request, for %.1f s",
		 (double)answer.cut_ns / NSEC_PER_MSEC, (double)command->arm_ns / NSEC_PER_SEC);
	while (nanosleep(&wait, &wait) < 0 && errno == EINTR)
		;
	return 0;
}

static int take_snapshot(struct snapshot_command *command)
{
	_cleanup_(fd_closep) int fd = -1;
	struct flight_answer answer = {0};
	struct sink *file = NULL;
	uid_t owner = geteuid();
	int r = command->pid ? 0 : choose_recorder(command);

	if (r < 0)
		return r == -EINVAL ? 2 : 1;
	if (command->arm_ns) {
		r = sample(command);
		if (r < 0)
			return refused(command, r);
	}
	r = connect_to(command->pid, connect_until(), &fd, &owner);
	if (r >= 0 && uses_file(command) && !command->output && owner != geteuid()) {
		log_error("snapshot: --exec, --str and --bin with another user's recorder need -o "
			  "FILE, because that user would choose the file's name");
		return 2;
	}
	if (r >= 0 && command->output)
		r = sink_file_new(command->output, &file);
	if (r < 0 && fd >= 0) {
		log_error("snapshot: %s: %s", command->output, strerror(-r));
		return 1;
	}
	if (r >= 0)
		r = ask(fd, command, 0, file, &answer);
	file = sink_free(file); /* empty: it goes away, and FILE.old comes back */
	if (r < 0)
		return refused(command, r);
	report(&answer);
	return uses_file(command) ? hand_over(command, &answer, owner) : 0;
}

/* ---- of the daemon: the answer and the packets come over two sockets, in either order ---- */

/* What the daemon has answered. */
struct daemon_answer {
	uint64_t samples, bytes;
	char why[512]; /* of a failure, a line */
};

struct asked {
	struct control_stream stream;
	int received, packets; /* received: comes with ACCEPTED */
	bool answered, over;   /* over: all packets were read */
	struct daemon_answer *result;
	uint8_t piece[DAEMON_PIECE];
};

static int end_with(struct asked *a, int error, const void *why, size_t len)
{
	(void)snprintf(a->result->why, sizeof(a->result->why), "%.*s", (int)min_u64(len, 500),
		       (const char *)why);
	return error;
}

static int end_as(struct asked *a, int error, const char *why)
{
	return end_with(a, error, why, strlen(why));
}

static int take_message(struct asked *a, uint32_t type, const uint8_t *data, size_t len)
{
	struct control_snapped snapped;

	switch (type) {
	case CONTROL_ACCEPTED:
		a->packets = take_fd(a->received);
		return a->packets < 0 ? end_as(a, -EBADMSG, "the daemon's answer is not understood")
				      : 0;
	case CONTROL_DENIED:
		return end_with(a, -EPERM, data, len);
	case CONTROL_SNAPPED:
		if (len != sizeof(snapped))
			return end_as(a, -EBADMSG, "the daemon is of another version");
		memcpy(&snapped, data, sizeof(snapped));
		a->answered = true;
		a->result->samples = snapped.samples;
		a->result->bytes = snapped.bytes;
		return snapped.error < 0 ? end_as(a, snapped.error, strerror(-snapped.error)) : 0;
	default:
		return 0; /* of a later version */
	}
}

static int take_messages(struct asked *a)
{
	const uint8_t *data;
	uint32_t type;
	size_t len;
	int r = control_receive_with(&a->stream, &a->received);

	if (r == CONTROL_CLOSED && !a->answered)
		return end_as(
			a, -EPIPE,
			"the daemon closed the connection without an answer: it ended just now "
			"(hint: try again), or it is of another version");
	while (r == 0) {
		r = control_next(&a->stream, &type, &data, &len);
		if (r == 0)
			r = take_message(a, type, data, len);
	}
	return r < 0 ? r : 0;
}

static int take_packets(struct asked *a, struct sink *file)
{
	ssize_t n = recv(a->packets, a->piece, sizeof(a->piece), MSG_DONTWAIT);
	int r;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	a->over = n <= 0;
	r = n > 0 ? write_all(sink_fd(file), a->piece, (size_t)n) : 0;
	return r < 0 ? end_as(a, r, strerror(-r)) : 0;
}

static int exchange(struct asked *a, struct sink *file)
{
	int r = 0;

	while (r >= 0 && !(a->answered && a->over)) {
		struct pollfd fds[] = {{.fd = a->answered ? -1 : a->stream.fd, .events = POLLIN},
				       {.fd = a->over ? -1 : a->packets, .events = POLLIN}};

		r = poll(fds, ARRAY_SIZE(fds), ANSWER_MS);
		if (r == 0)
			r = end_as(a, -ETIMEDOUT, "the daemon does not answer");
		else if (r < 0)
			r = errno == EINTR ? 0 : end_as(a, -errno, strerror(errno));
		if (r > 0 && fds[1].revents)
			r = take_packets(a, file);
		if (r >= 0 && fds[0].revents)
			r = take_messages(a);
	}
	return r < 0 ? trace(r) : 0;
}

/* Asks at @socket and writes to @file until all is there.  < 0: ret->why is set. */
static int ask_daemon(const char *socket, uint64_t last_ns, struct sink *file,
		      struct daemon_answer *ret)
{
	struct asked *a = calloc(1, sizeof(*a));
	int fd = -1, r;

	*ret = (struct daemon_answer){0};
	if (!a) {
		(void)snprintf(ret->why, sizeof(ret->why), "%s", strerror(ENOMEM));
		return fail(-ENOMEM);
	}
	a->result = ret;
	a->received = a->packets = -1;
	r = ask_connect(socket, &fd);
	if (r < 0) {
		(void)snprintf(ret->why, sizeof(ret->why),
			       "no daemon answers: %s (perfwind doctor shows how to start one; its "
			       "recorder needs recorder-size = 64M in /etc/perfwind.conf)",
			       strerror(-r));
		free(a);
		return trace(r);
	}
	control_stream_init(&a->stream, fd, CONTROL_REPLY_MAX);
	if (r >= 0)
		r = control_queue(&a->stream, CONTROL_SNAPSHOT, &last_ns, sizeof(last_ns));
	if (r >= 0)
		r = control_send(&a->stream);
	if (r < 0)
		r = end_as(a, r, strerror(-r));
	else
		r = exchange(a, file);
	control_stream_deinit(&a->stream);
	(void)fd_close(a->received);
	(void)fd_close(a->packets);
	free(a);
	return r < 0 ? trace(r) : 0;
}

static int take_of_daemon(struct snapshot_command *command)
{
	const char *socket = command->socket ? command->socket : CONTROL_SOCKET;
	struct daemon_answer result;
	struct sink *file;
	char samples[32], size[32];
	int r;

	if (!command->output)
		command->output = DEFAULT_TRACE;
	r = sink_file_new(command->output, &file);
	if (r < 0) {
		log_error("snapshot: %s: %s", command->output, strerror(-r));
		return 1;
	}
	r = ask_daemon(socket, command->last_ns, file, &result);
	file = sink_free(file);
	if (r < 0) {
		log_error("snapshot of the daemon at %s: %s", socket, result.why);
		return 1;
	}
	log_info("snapshot: %s samples, %s: %s", text_count(result.samples, samples),
		 text_size(result.bytes, size), command->output);
	return use_file(command, command->output);
}

static int snapshot_main(int argc, char **argv)
{
	struct snapshot_command command = {0};
	int n, r, e;

	r = options_parse(&options, argc, argv, &command, &n);
	if (r)
		return options_exit_status(r);
	if (command.output && strlen(command.output) >= PATH_MAX) {
		log_error("snapshot: -o: %s", strerror(ENAMETOOLONG));
		return 2;
	}
	/* Before the snapshot: a command that cannot be run is wrong usage. */
	e = command.exec ? spawn_check(command.exec) : 0;
	if (e) {
		log_error("%s: %s", command.exec, strerror(e));
		return e == ENOENT ? 127 : 126;
	}
	if (command.daemon && (command.pid || command.arm_ns)) {
		log_error("snapshot: --daemon and %s exclude each other",
			  command.pid ? "-p" : "--arm");
		return 2;
	}
	return command.daemon ? take_of_daemon(&command) : take_snapshot(&command);
}

const struct command command_snapshot = {"snapshot", "write what a running flight recorder holds",
					 snapshot_main, &options};
