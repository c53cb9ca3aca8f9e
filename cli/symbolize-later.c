/* symbolize-later.c - see symbolize-later.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/table.h"
#include "base/util.h"
#include "cli/debuginfod.h"
#include "cli/symbolize-later.h"
#include "proc/file-places.h"

/* What comes through the pipe: "+BUILDID\n" any number of times, then "=PATH" up to the end. */
struct message {
	char text[PATH_MAX + 2];
	size_t len;
};

static bool id_of(const char *hex, size_t len, struct uw_build_id *id)
{
	char byte[3] = "";

	*id = (struct uw_build_id){.len = (uint8_t)(len / 2)};
	if (len < 4 || len % 2 || len / 2 > UW_BUILD_ID_MAX)
		return false;
	for (size_t i = 0; i < len; i += 2) {
		uint64_t value;

		memcpy(byte, hex + i, 2);
		if (parse_u64(byte, 16, UINT8_MAX, &value) < 0)
			return false;
		id->bytes[i / 2] = (uint8_t)value;
	}
	return true;
}

static void ask_early(struct debuginfod_early *early, const char *hex, size_t len)
{
	const struct file_places here = {.symfs = NULL};
	struct uw_build_id id;
	int fd;

	if (!id_of(hex, len, &id))
		return;
	fd = file_places_open_debug_id(&here, &id);
	if (fd < 0)
		debuginfod_early_ask(early, &id);
	(void)fd_close(fd);
}

/* Takes the build ids at the beginning. */
static void take_ids(struct message *m, struct debuginfod_early *early)
{
	char *end;

	while (m->len && m->text[0] == '+' && (end = memchr(m->text, '\n', m->len))) {
		size_t taken = (size_t)(end + 1 - m->text);

		ask_early(early, m->text + 1, taken - 2);
		m->len -= taken;
		memmove(m->text, end + 1, m->len);
	}
}

static void become_symbolize(const char *path, unsigned seconds)
{
	char time[16];

	(void)snprintf(time, sizeof(time), "%us", seconds ? seconds : 1);
	(void)dup2(STDERR_FILENO, STDOUT_FILENO); /* --json */
	(void)execl("/proc/self/exe", "perfwind", "symbolize",
		    log_level <= LOG_LEVEL_QUIET ? "--quiet" : "--debuginfod", "--debuginfod",
		    "--debuginfod-time", time, "--", path, (char *)NULL);
}

/* Ctrl-C ends the recording; names come after it. */
static void wait_and_run(int go)
{
	struct sigaction action = {.sa_handler = SIG_IGN};
	struct debuginfod_early early = {.pid = 0};
	struct message m = {.len = 0};
	unsigned seconds;
	ssize_t n;

	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	(void)sigaction(SIGPIPE, &action, NULL);
	while (m.len <= PATH_MAX && (n = read(go, m.text + m.len, PATH_MAX + 1 - m.len)) != 0) {
		if (n < 0 && errno != EINTR)
			return;
		m.len += n < 0 ? 0 : (size_t)n;
		take_ids(&m, &early);
	}
	m.text[m.len] = 0;
	action.sa_handler = SIG_DFL;
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	(void)sigaction(SIGPIPE, &action, NULL);
	seconds = debuginfod_early_end(&early, m.len > 1 ? DEBUGINFOD_SECONDS : 0);
	if (m.len > 1)
		become_symbolize(m.text + 1, seconds);
}

int symbolize_later_start(struct symbolize_later *later, bool option, const char *output)
{
	bool is_file = !output || strcmp(output, "-") != 0;
	int ends[2];

	*later = (struct symbolize_later){.go = -1};
	if (!option && (!is_file || !debuginfod_wanted(false)))
		return 0;
	if (debuginfod_refusal() || !is_file) {
		log_error("--debuginfod: %s",
			  debuginfod_refusal() ? debuginfod_refusal()
					       : "names are added to a file; -o - is not a file");
		return -EINVAL;
	}
	if (pipe2(ends, O_CLOEXEC) < 0) {
		log_error("--debuginfod: %s", strerror(errno));
		return fail(-errno);
	}
	later->pid = fork();
	if (later->pid == 0) {
		(void)close(ends[1]);
		wait_and_run(ends[0]);
		_exit(1);
	}
	(void)close(ends[0]);
	later->go = ends[1];
	if (later->pid > 0)
		return 0;
	log_error("--debuginfod: %s", strerror(errno));
	later->go = fd_close(later->go);
	later->pid = 0;
	return fail(-EAGAIN);
}

void symbolize_later_wants(struct symbolize_later *later, const char *build_id)
{
	uint64_t hash = hash_bytes(build_id, strlen(build_id));
	char line[2 * UW_BUILD_ID_MAX + 3];
	int n;

	if (!later->pid || !*build_id || later->n_known == ARRAY_SIZE(later->known))
		return;
	for (size_t i = 0; i < later->n_known; i++)
		if (later->known[i] == hash)
			return;
	later->known[later->n_known++] = hash;
	n = snprintf(line, sizeof(line), "+%s\n", build_id);
	if (n > 0 && (size_t)n < sizeof(line))
		(void)!write(later->go, line, (size_t)n);
}

void symbolize_later_end(struct symbolize_later *later, const char *output)
{
	if (!later->pid)
		return;
	if (output && write(later->go, "=", 1) == 1)
		(void)!write(later->go, output, strlen(output));
	later->go = fd_close(later->go);
	while (waitpid(later->pid, NULL, 0) < 0 && errno == EINTR)
		;
	later->pid = 0;
}
