/* raw.c - see raw.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/raw.h"
#include "base/error.h"

enum { COMMAND_MAX = 1 << 20, WORDS = 1024 };

static int report_failure(const char *path, int r)
{
	log_error("%s: %s", path, strerror(-r));
	return r;
}

/* A device or pipe keeps its name.  Keeps errno. */
static bool is_file(const char *path)
{
	struct stat st;
	int e = errno;
	bool is = lstat(path, &st) == 0 && (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode));

	errno = e;
	return is;
}

int raw_open(const char *path, size_t n_events, bool *ret_replaced, struct perfdata_out **ret_raw)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
	_cleanup_(freep) char *old = NULL;
	_cleanup_(fd_closep) int fd = -1;
	int r;

	if (n_events > 1) {
		log_error("--perf-data takes one event: perf cannot distinguish the counts of "
			  "followers");
		return fail(-EINVAL);
	}
	if (asprintf(&old, "%s.old", path) < 0)
		return report_failure(path, fail(-ENOMEM));
	*ret_replaced = false;
	fd = open(path, flags, 0600);
	if (fd < 0 && errno == EEXIST && is_file(path) && rename(path, old) == 0) {
		*ret_replaced = true;
		fd = open(path, flags, 0600);
	}
	if (fd < 0) {
		r = fail(-errno);
		/* Not over a file that another process has made meanwhile. */
		if (*ret_replaced && link(old, path) == 0)
			(void)unlink(old);
		return report_failure(path, r);
	}
	r = perfdata_out_new(take_fd(fd), ret_raw);
	if (r >= 0)
		return 0;
	raw_discard(path, *ret_replaced);
	return report_failure(path, r);
}

void raw_discard(const char *path, bool replaced)
{
	_cleanup_(freep) char *old = NULL;

	if (unlink(path) == 0 && replaced && asprintf(&old, "%s.old", path) >= 0)
		(void)rename(old, path);
}

/* Our own arguments, as they were given. */
static int own_command(char **ret_text, char *words[WORDS + 1])
{
	size_t len, n = 0;
	int r = read_file("/proc/self/cmdline", COMMAND_MAX, ret_text, &len);

	for (size_t at = 0; r >= 0 && at < len && n < WORDS; at += strlen(*ret_text + at) + 1)
		words[n++] = *ret_text + at;
	words[n] = NULL;
	return r < 0 ? trace(r) : 0;
}

int raw_finish(struct perfdata_out *raw, const char *path)
{
	_cleanup_(freep) char *text = NULL;
	char *words[WORDS + 1] = {NULL};
	int r = 0;

	if (raw) {
		(void)own_command(&text, words); /* without it the line is empty */
		r = perfdata_out_finish(raw, "perfwind " PERFWIND_VERSION, words);
	}

	if (r < 0)
		return report_failure(path, r);
	if (raw)
		log_info("%s: %lu samples for perf", path, perfdata_out_samples(raw));
	return 0;
}
