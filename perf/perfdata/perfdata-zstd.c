/* perfdata-zstd.c - PERF_RECORD_COMPRESSED (perf record -z).  Thread: any, one.
 *
 * All compressed records of a file are one zstd stream; a record of the kernel may begin in one of
 * them and end in the next. */
#include <errno.h>

#include "base/error.h"
#include "perf/perfdata/perfdata-private.h"

#ifdef HAVE_ZSTD
#include <zstd.h>

enum { WINDOW_LOG_MAX = 27 }; /* what zstd's own highest level uses: 128 MiB */

struct perfdata_zstd {
	ZSTD_DStream *stream;
	ZSTD_inBuffer in;
	bool more; /* output stood ready when its room was full */
};

struct perfdata_zstd *perfdata_zstd_free(struct perfdata_zstd *z)
{
	if (!z)
		return NULL;
	ZSTD_freeDStream(z->stream);
	free(z);
	return NULL;
}

static int zstd_new(struct perfdata_zstd **ret_zstd)
{
	struct perfdata_zstd *z = calloc(1, sizeof(*z));

	if (!z)
		return fail(-ENOMEM);
	z->stream = ZSTD_createDStream();
	if (!z->stream ||
	    ZSTD_isError(ZSTD_DCtx_setParameter(z->stream, ZSTD_d_windowLogMax, WINDOW_LOG_MAX))) {
		(void)perfdata_zstd_free(z);
		return fail(-ENOMEM);
	}
	*ret_zstd = z;
	return 0;
}

int perfdata_unpack_begin(struct perfdata *pd, const struct perf_event_header *record)
{
	struct cursor c = cursor_of(record + 1, record->size - sizeof(*record));
	uint64_t len = cursor_left(&c);
	int r;

	if (record->type == PERFDATA_COMPRESSED2) {
		uint64_t told = cursor_u64(&c);

		len = min_u64(told, cursor_left(&c));
	}
	if (!pd->zstd) {
		r = zstd_new(&pd->zstd);
		if (r < 0)
			return trace(r);
	}
	pd->zstd->in = (ZSTD_inBuffer){.src = c.p, .size = len};
	return 0;
}

int perfdata_unpack(struct perfdata *pd, struct record_at *ret_at)
{
	struct perfdata_zstd *z = pd->zstd;
	uint8_t *room;
	size_t len, result;
	int r;

	for (;;) {
		r = perfdata_stream_record(pd, &pd->unpacked, ret_at);
		if (r != STREAM_DRY)
			return r;
		if (z->in.pos == z->in.size && !z->more)
			return STREAM_DRY;
		r = perfdata_stream_room(pd, &pd->unpacked, &room, &len);
		if (r < 0)
			return trace(r);

		ZSTD_outBuffer out = {.dst = room, .size = len};

		result = ZSTD_decompressStream(z->stream, &out, &z->in);
		if (ZSTD_isError(result)) {
			pd->counts.damage = "a compressed record cannot be unpacked";
			return fail(-EBADMSG);
		}
		pd->unpacked.filled += out.pos;
		z->more = out.pos == out.size;
	}
}

#else /* without libzstd */

struct perfdata_zstd *perfdata_zstd_free(struct perfdata_zstd *zstd)
{
	return zstd;
}

int perfdata_unpack_begin(struct perfdata *pd, const struct perf_event_header *record)
{
	(void)record;
	pd->counts.damage =
		"its records are compressed, and this perfwind was built without libzstd";
	return fail(-EBADMSG);
}

int perfdata_unpack(struct perfdata *pd, struct record_at *ret_at)
{
	(void)pd;
	(void)ret_at;
	return STREAM_DRY;
}
#endif
