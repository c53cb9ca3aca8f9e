/* late_sink.c - see late_sink.h. */
#include <errno.h>
#include <string.h>

#include "cli/late_sink.h"
#include "daemon/base/error.h"
#include "daemon/base/log.h"

struct late_sink {
	struct sink sink;
	const char *path;
	bool plain, beside;
	int error; /* it could not be opened; a second try would put aside what the first one made
		    */
	struct sink *file;
};

static int late_open(struct late_sink *late)
{
	struct sink *file = NULL;
	int r = sink_file_new(late->path, &file);

	if (r < 0)
		return r;
	if (!late->plain) {
		r = sink_deflate_new(file, &file);
		if (r < 0)
			return r;
	}
	if (late->beside)
		return sink_beside_new(file, &late->file);
	late->file = file;
	return 0;
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
	if (late->file)
		sink->bytes = late->file->bytes;
	return r < 0 ? trace(r) : 0;
}

static int late_flush(struct sink *sink)
{
	struct late_sink *late = container_of(sink, struct late_sink, sink);
	int r = late->file ? late->file->flush(late->file) : 0;

	if (late->file)
		sink->bytes = late->file->bytes;
	return r;
}

static void late_free(struct sink *sink)
{
	struct late_sink *late = container_of(sink, struct late_sink, sink);

	(void)sink_free(late->file);
	free(late);
}

int late_sink_new_beside(const char *path, bool plain, struct sink **ret_sink)
{
	int r = late_sink_new(path, plain, ret_sink);

	if (r >= 0)
		container_of(*ret_sink, struct late_sink, sink)->beside = true;
	return r;
}

int late_sink_new(const char *path, bool plain, struct sink **ret_sink)
{
	struct late_sink *late = calloc(1, sizeof(*late));

	if (!late)
		return fail(-ENOMEM);
	*late = (struct late_sink){
		.sink = {late_write, late_flush, late_free, 0}, .path = path, .plain = plain};
	*ret_sink = &late->sink;
	return 0;
}

bool late_sink_tell(const struct sink *sink)
{
	const struct late_sink *late = container_of(sink, struct late_sink, sink);

	if (!sink || sink->write != late_write || late->error >= 0)
		return false;
	log_error("the trace cannot be written to %s (-o): %s", late->path,
		  late->error == -EISDIR ? "is a directory" : strerror(-late->error));
	return true;
}
