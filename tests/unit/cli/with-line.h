/* with-line.h - a failure of a command has a line for its user.  Included behind fail-calls.h. */
#pragma once

#include <stdio.h>

#include "tests/unit/fail-calls.h"

/* What @make logs goes into a file; where it fails there is a line. */
static int with_line(const char *name, int (*make)(void *made), void *made)
{
	static int fd = -1;
	int saved = fcntl(STDERR_FILENO, F_DUPFD, 10), r;

	if (fd < 0)
		fd = (int)syscall(SYS_memfd_create, "lines", (unsigned)MFD_CLOEXEC);
	assert_true(fd >= 0 && saved >= 0 && REAL(ftruncate)(fd, 0) == 0);
	(void)fflush(stderr);
	(void)dup2(fd, STDERR_FILENO);
	r = make(made);
	(void)dup2(saved, STDERR_FILENO);
	(void)close(saved);
	if (r < 0 && lseek(fd, 0, SEEK_END) == 0)
		fail_msg("%s, call %lu: %d without a line", name, calls_fail_at, r);
	return r;
}
