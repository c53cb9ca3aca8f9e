/* capture.h - what is written to a standard stream between begin and end, as text.  Nothing is asserted
 * in between: it would be written there too. */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

struct capture {
	int fd, saved, file;
};

static inline void capture_begin(struct capture *c, int fd)
{
	*c = (struct capture){.fd = fd};
	(void)fflush(NULL);
	c->saved = fcntl(fd, F_DUPFD_CLOEXEC, 10);
	c->file = memfd_create("captured", MFD_CLOEXEC);
	assert_true(c->saved >= 0 && c->file >= 0);
	assert_int_equal(dup2(c->file, fd), fd);
}

/* Returns new. */
static inline char *capture_end(struct capture *c)
{
	char *text;
	off_t len;

	(void)fflush(NULL);
	(void)dup2(c->saved, c->fd);
	len = lseek(c->file, 0, SEEK_END);
	assert_true(len >= 0);
	text = calloc(1, (size_t)len + 1);
	assert_non_null(text);
	assert_int_equal(pread(c->file, text, (size_t)len, 0), len);
	close(c->file);
	close(c->saved);
	return text;
}
