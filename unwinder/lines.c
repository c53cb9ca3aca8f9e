/* lines.c - inlined calls and lines, by libdw. */
#include "unwinder/parts.h"

struct uw_lines {
	int fd;
};

struct uw_lines *uw_lines_free(struct uw_lines *lines)
{
	if (!lines)
		return NULL;
	fd_close(lines->fd);
	free(lines);
	return NULL;
}
