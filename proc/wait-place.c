/* wait-place.c - see wait-place.h. */
#include "proc/wait-place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "proc/procfs.h"

enum { LINE_MAX_LEN = 256, WORDS = 9 };

/* The next number of the line, in hexadecimal or decimal.  False: there is none. */
static bool next_number(const char **at, uint64_t *ret)
{
	char word[24];
	size_t len;
	bool minus, hex;

	*at += strspn(*at, " ");
	len = strcspn(*at, " \n");
	if (!len || len >= sizeof(word))
		return false;
	memcpy(word, *at, len);
	word[len] = 0;
	*at += len;
	minus = *word == '-';
	hex = !strncmp(word, "0x", 2);
	if (parse_u64(word + (hex ? 2 : minus), hex ? 16 : 10, UINT64_MAX, ret) < 0)
		return false;
	if (minus)
		*ret = -*ret;
	return true;
}

int wait_place_parse(const char *line, struct wait_place *ret_place)
{
	uint64_t words[WORDS];
	size_t n = 0;

	if (!strncmp(line, "running", strlen("running")))
		return -EAGAIN;
	while (n < WORDS && next_number(&line, &words[n]))
		n++;
	line += strspn(line, " \n");
	if (*line || (n != 3 && n != WORDS) || (n == 3) != ((int64_t)words[0] == -1))
		return fail(-EBADMSG);
	*ret_place = (struct wait_place){
		.number = (int64_t)words[0],
		.argument = n == WORDS ? words[1] : 0,
		.sp = words[n - 2],
		.pc = words[n - 1],
	};
	return 0;
}

int wait_place_read(const char *root, uint32_t pid, uint32_t tid, struct wait_place *ret_place)
{
	_cleanup_(freep) char *text = NULL;
	char path[PROCFS_PATH_MAX], name[48];
	int r;

	(void)snprintf(name, sizeof(name), "task/%u/syscall", tid);
	r = procfs_path(path, root, pid, name);
	if (r >= 0)
		r = read_file(path, LINE_MAX_LEN, &text, NULL);
	return r < 0 ? trace(r) : wait_place_parse(text, ret_place);
}

void wait_place_find_file(const char *root, uint32_t pid, struct wait_place *place)
{
	char path[PROCFS_PATH_MAX], name[48], to[16];
	ssize_t n;

	(void)snprintf(name, sizeof(name), "fd/%u", (uint32_t)place->argument);
	if (procfs_path(path, root, pid, name) < 0)
		return;
	n = readlink(path, to, sizeof(to) - 1);
	to[n > 0 ? n : 0] = 0;
	place->is_pipe = !strncmp(to, "pipe:", 5) || !strncmp(to, "socket:", 7);
}

ssize_t wait_place_stack(const char *root, uint32_t pid, uint64_t address, void *to, size_t len)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[PROCFS_PATH_MAX];
	ssize_t n;
	int r = procfs_path(path, root, pid, "mem");

	if (r < 0)
		return trace(r);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = pread(fd, to, len, (off_t)address);
	return n < 0 ? -errno : n;
}
