/* import-file.c - see import-file.h. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/import-file.h"
#include "base/error.h"
#include "base/log.h"
#include "import/import.h"

/* Below the size that malloc() would map apart. */
enum { HEAP_ROOM = 24 << 20, PAGE = 4096 };

static bool is_folder(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* `perf record --kcore` makes a folder: its file `data` is all of the recording; with --threads most of it is in
 * data.0, data.1 ... (tools/perf/Documentation/perf.data-directory-format.txt).  -EISDIR: not the former. */
static int open_in_folder(int folder)
{
	int fd;

	if (faccessat(folder, "data.0", F_OK, 0) == 0)
		return -EISDIR;
	fd = openat(folder, "data", O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -EISDIR : fd;
}

static int open_file(const char *input)
{
	_cleanup_(fd_closep) int fd = -1;

	if (!strcmp(input, "-"))
		return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	fd = open(input, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return is_folder(fd) ? open_in_folder(fd) : take_fd(fd);
}

int import_file_open(const char *input)
{
	int fd = open_file(input);

	if (fd == -EISDIR)
		log_error("%s: a folder, as `perf record --threads` writes: it is not read; record "
			  "without --threads",
			  input);
	else if (fd < 0)
		log_error("%s: %s", input, strerror(-fd));
	return fd;
}

/* Tables of files come and go: their memory is kept, as each page costs a fault again.  And in huge
 * pages, where there are some, as 5,000 faults are a tenth of a small import. */
void import_file_prepare(void)
{
	uint8_t *room;

	use_hard_limit(RLIMIT_NOFILE); /* each module that is at hand takes two */
	(void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
	(void)mallopt(M_TRIM_THRESHOLD, 256 << 20);
	(void)mallopt(M_TOP_PAD, 1 << 20);
	room = malloc(HEAP_ROOM);
	if (room) {
		uint8_t *page = room + (-(uintptr_t)room & (PAGE - 1));

		(void)madvise(page, HEAP_ROOM - PAGE, MADV_HUGEPAGE);
	}
	free(room);
}

int import_file_to_memory(const char *input, int *ret_fd)
{
	const struct import_options options = {0};
	_cleanup_(fd_closep) int fd = import_file_open(input), memory = -1;
	struct import_result result;
	struct sink *sink;
	char error[512];
	int r;

	if (fd < 0)
		return fd;
	import_file_prepare();
	memory = memfd_create("perfwind-import", MFD_CLOEXEC);
	r = memory < 0 ? -errno : sink_fd_new(fcntl(memory, F_DUPFD_CLOEXEC, 3), &sink);
	if (r < 0) {
		log_error("%s: %s", input, strerror(-r));
		return r;
	}
	r = import_run(fd, &options, sink, &result, error, sizeof(error));
	if (r >= 0)
		r = sink->flush(sink);
	for (size_t i = 0; r >= 0 && i < result.summary.n_notes; i++)
		log_info("%s: %s", input, result.summary.notes[i]);
	if (r < 0)
		log_error("%s %s", input, error);
	import_result_deinit(&result);
	(void)sink_free(sink);
	if (r < 0)
		return r;
	*ret_fd = take_fd(memory);
	return 0;
}
