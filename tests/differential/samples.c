/* samples.c - the area of events, its file form, and the life of a set of samples.  See samples.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/differential/samples.h"

struct sample_event *samples_area_add(struct samples_area *area, size_t len)
{
	size_t size = (sizeof(struct sample_event) + len + 7) & ~(size_t)7;
	struct sample_event *event;

	if (size > area->room - area->used)
		return NULL;
	event = (struct sample_event *)(void *)(area->base + area->used);
	event->size = (uint32_t)size;
	area->used += size;
	return event;
}

static int area_new(size_t room, struct samples_area **ret_area)
{
	struct samples_area *area = calloc(1, sizeof(*area));

	if (!area)
		return -ENOMEM;
	area->base = mmap(NULL, room, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area->base == MAP_FAILED) {
		free(area);
		return -ENOMEM;
	}
	area->room = room;
	*ret_area = area;
	return 0;
}

int samples_save(const struct samples *samples, const char *path)
{
	_cleanup_(fd_closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	uint64_t head[2] = {SAMPLES_MAGIC, samples->area->used};
	int r;

	if (fd < 0)
		return -errno;
	r = write_all(fd, head, sizeof(head));
	return r < 0 ? r : write_all(fd, samples->area->base, samples->area->used);
}

/* Every event lies in the area and has what its type demands. */
static bool area_is_good(const struct samples_area *area)
{
	for (size_t at = 0; at < area->used;) {
		const struct sample_event *e = (const void *)(area->base + at);
		size_t left = area->used - at;

		if (left < sizeof(*e) || e->size < sizeof(*e) || e->size > left || e->size % 8)
			return false;
		left = e->size - sizeof(*e);
		if (e->type == SAMPLE_STACK && e->stack.len > left)
			return false;
		if (e->type == SAMPLE_TRUTH && e->truth.n > left / sizeof(uint64_t))
			return false;
		if (e->type == SAMPLE_MAP && (!left || !memchr(e->data, 0, left)))
			return false;
		at += e->size;
	}
	return true;
}

static int samples_load(const char *path, struct samples *samples)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t head[2];
	struct stat st;
	size_t got = 0;
	int r;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (read(fd, head, sizeof(head)) != sizeof(head) || head[0] != SAMPLES_MAGIC ||
	    head[1] + sizeof(head) != (uint64_t)st.st_size)
		return -EBADMSG;
	r = area_new(head[1], &samples->area);
	if (r < 0)
		return r;
	while (got < head[1]) {
		ssize_t n = read(fd, samples->area->base + got, head[1] - got);

		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		got += (size_t)n;
	}
	samples->area->used = got;
	return area_is_good(samples->area) ? 0 : -EBADMSG;
}

struct samples *samples_free(struct samples *samples)
{
	if (!samples)
		return NULL;
	samples_replay_free(samples->replay);
	if (samples->area) {
		munmap(samples->area->base, samples->area->room);
		free(samples->area);
	}
	free(samples->list);
	free(samples);
	return NULL;
}

/* Files of ours begin with SAMPLES_MAGIC; whatever else is given is for perfdata.h to judge. */
static bool is_saved(const char *path)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t magic = 0;

	return fd >= 0 && read(fd, &magic, sizeof(magic)) == sizeof(magic) &&
	       magic == SAMPLES_MAGIC;
}

int samples_new(const struct samples_options *options, struct samples **ret_samples)
{
	_cleanup_(samples_freep) struct samples *samples = calloc(1, sizeof(*samples));
	int r;

	if (!samples)
		return -ENOMEM;
	if (options->load && is_saved(options->load)) {
		r = samples_load(options->load, samples);
	} else {
		r = area_new(options->max_bytes, &samples->area);
		if (r == 0)
			r = options->load ? samples_recorded(options, samples)
					  : samples_take(options, samples);
	}
	if (r == 0)
		r = samples_replay(samples);
	if (r < 0) {
		fprintf(stderr, "samples: %s: %s\n",
			options->load ? options->load : options->command[0], strerror(-r));
		return r;
	}
	*ret_samples = take(samples);
	return 0;
}
