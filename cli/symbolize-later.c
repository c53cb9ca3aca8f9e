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
#include "base/util.h"
#include "cli/debuginfod.h"
#include "cli/symbolize-later.h"

/* Ctrl-C ends the recording; names come after it. */
static void wait_and_run(int go)
{
	struct sigaction action = {.sa_handler = SIG_IGN};
	char path[PATH_MAX + 1] = "";
	size_t len = 0;
	ssize_t n;

	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	while (len < PATH_MAX && (n = read(go, path + len, PATH_MAX - len)) != 0) {
		if (n < 0 && errno != EINTR)
			return;
		len += n < 0 ? 0 : (size_t)n;
	}
	action.sa_handler = SIG_DFL;
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	(void)dup2(STDERR_FILENO, STDOUT_FILENO); /* --json */
	if (len && *path)
		(void)execl("/proc/self/exe", "perfwind", "symbolize",
			    log_level <= LOG_LEVEL_QUIET ? "--quiet" : "--debuginfod",
			    "--debuginfod", "--", path, (char *)NULL);
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

void symbolize_later_end(struct symbolize_later *later, const char *output)
{
	if (!later->pid)
		return;
	if (output)
		(void)!write(later->go, output, strlen(output));
	later->go = fd_close(later->go);
	while (waitpid(later->pid, NULL, 0) < 0 && errno == EINTR)
		;
	later->pid = 0;
}
