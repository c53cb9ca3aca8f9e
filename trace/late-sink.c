/* late-sink.c - see late-sink.h. */
#include <errno.h>
#include <string.h>

#include "trace/late-sink.h"
#include "base/error.h"
#include "base/log.h"
#include "trace/file-mark.h"

struct late_sink {
	struct sink sink;
	const char *path;
	bool plain, threaded;
	uint32_t behind_ms;
	int error;  /* of the open, which is not repeated: that would rename the new file */
	int failed; /* < 0: a packet was rejected, and why */
	struct sink *file;
	struct sink *base; /* the same without compression and thread: borrowed from `file` */
};

static int late_open(struct late_sink *late)
{
	struct sink *file = NULL;
	int r = sink_file_new(late->path, &file);

	if (r < 0)
		return r;
	r = file_mark_begin(file, late->behind_ms, false); /* before the compression */
	if (r < 0) {
		(void)sink_free(file);
		return r;
	}
	late->base = file;
	if (!late->plain) {
		r = sink_deflate_new(file, &file);
		if (r < 0)
			return r;
	}
	if (late->threaded)
		return sink_threaded_new(file, &late->file);
	late->file = file;
	return 0;
}

static void look(struct late_sink *late, int r)
{
	if (r < 0 && late->failed >= 0)
		late->failed = r;
	if (!late->file)
		return;
	late->sink.bytes = late->file->bytes;
	late->sink.written = late->file->written;
}

static int late_write(struct sink *sink, const void *data, size_t len)
{
	struct late_sink *late = container_of(sink, struct late_sink, sink);
	int r;

	if (!late->file && late->error >= 0)
		late->error = late_open(late);
	r = late->error;
	if (r >= 0)
		r = late->file->write(late->file, data, len);
	look(late, r);
	return r < 0 ? trace(r) : 0;
}

static int late_flush(struct sink *sink)
{
	struct late_sink *late = container_of(sink, struct late_sink, sink);
	int r = late->file ? late->file->flush(late->file) : 0;

	look(late, r);
	return r;
}

static void late_free(struct sink *sink)
{
	struct late_sink *late = container_of(sink, struct late_sink, sink);

	(void)sink_free(late->file);
	free(late);
}

void late_sink_behind(struct sink *sink, uint32_t ms)
{
	container_of(sink, struct late_sink, sink)->behind_ms = ms;
}

void late_sink_discard(struct sink *sink)
{
	struct late_sink *late = container_of(sink, struct late_sink, sink);

	if (sink && sink->write == late_write && late->file)
		sink_file_discard(late->base);
}

int late_sink_end(struct sink *sink, bool full)
{
	struct late_sink *late = container_of(sink, struct late_sink, sink);
	struct sink_count count;
	int r;

	if (sink->write != late_write)
		return LATE_SINK_CUT;
	r = late_flush(sink);
	if (r < 0 || late->failed < 0 || !late->file)
		return r < 0 ? trace(r) : LATE_SINK_CUT;
	/* The begin mark is not compressed. */
	count = (struct sink_count){sink->written.packets - late->plain, sink->written.samples};
	r = file_mark_end(late->file, &count, full);
	if (r >= 0)
		r = late_flush(sink);
	look(late, r);
	return r < 0 ? trace(r) : 0;
}

int late_sink_new_threaded(const char *path, bool plain, struct sink **ret_sink)
{
	int r = late_sink_new(path, plain, ret_sink);

	if (r >= 0)
		container_of(*ret_sink, struct late_sink, sink)->threaded = true;
	return r;
}

int late_sink_new(const char *path, bool plain, struct sink **ret_sink)
{
	struct late_sink *late = calloc(1, sizeof(*late));

	if (!late)
		return fail(-ENOMEM);
	*late = (struct late_sink){
		.sink = {.write = late_write, .flush = late_flush, .free = late_free},
		.path = path,
		.plain = plain,
	};
	*ret_sink = &late->sink;
	return 0;
}

static const char *words_of(int error)
{
	switch (error) {
	case -EISDIR:
		return "is a directory; hint: -o with the name of a file in it";
	case -ENOTEMPTY:
		return "exists, and cannot be kept as FILE.old, which is a directory; hint: "
		       "another -o";
	case -ELOOP:
		return "another user's link or pipe in a directory where everybody can write";
	case -EACCES:
	case -EROFS:
		return "no permission to write there; hint: -o /tmp/perfwind.pftrace";
	case -ENOENT:
	case -ENOTDIR:
		return "its folder does not exist; hint: mkdir -p, or another -o";
	case -ENOSPC:
	case -EDQUOT:
		return "No space left on device; hint: -o FILE on another disk";
	case -EPIPE:
		return "Broken pipe: the program that reads it has ended";
	case -EBADF:
		return "the descriptor is closed; hint: -o FILE";
	default:
		return strerror(-error);
	}
}

void late_sink_report_error(const char *path, int error)
{
	log_error("the trace cannot be written to %s (-o): %s", path, words_of(error));
}

bool late_sink_report(const struct sink *sink)
{
	const struct late_sink *late = container_of(sink, struct late_sink, sink);
	int r;

	if (!sink || sink->write != late_write)
		return false;
	r = late->error < 0 ? late->error : late->failed;
	if (r < 0)
		late_sink_report_error(late->path, r);
	return r < 0;
}
