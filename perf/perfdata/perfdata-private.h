/* perfdata-private.h - the parts of perfdata.h; shared by perfdata*.c only.
 *
 *   perfdata-header.c   file header, attributes, names, features
 *   perfdata-block.c    bytes: blocks, a thread that reads the next ones of a large file, their whole records,
 *                       decompression
 *   perfdata.c          the event of each record, their order; the scan of all mappings */
#pragma once

#include "base/bytes.h"
#include "base/table.h"
#include "perf/perfdata/perfdata.h"

enum {
	BLOCK_BYTES = 256 << 10,
	BLOCK_HEAD = 64 << 10, /* what is read ahead leaves so much room for the record before it */
	RECORD_MAX = 65535,    /* header.size has 16 bits */
	BLOCK_NONE = UINT32_MAX,
	HOLD_BYTES = 256 << 20,
	NAME_MAX_BYTES = 1023,	       /* of an event */
	BUILD_ID_PATH_MAX = 4096,      /* the kernel's PATH_MAX */
	BUILD_ID_PATHS_MAX = 32 << 20, /* bytes of all */
	AHEAD_BYTES = 4 << 20,	       /* below it a thread costs more than it saves */
	WINDOW_LOG_MIN = 10,
	WINDOW_LOG_MAX = 27, /* zstd's own highest level has it: 128 MiB */
};

/* Records that perf itself writes (tools/lib/perf/include/perf/event.h). */
enum {
	PERFDATA_HEADER_ATTR = 64,
	PERFDATA_HEADER_TRACING_DATA = 66,
	PERFDATA_HEADER_BUILD_ID = 67,
	PERFDATA_FINISHED_ROUND = 68,
	PERFDATA_AUXTRACE = 71,
	PERFDATA_EVENT_UPDATE = 78,
	PERFDATA_TIME_CONV = 79,
	PERFDATA_HEADER_FEATURE = 80,
	PERFDATA_COMPRESSED = 81,
	PERFDATA_COMPRESSED2 = 83,
	PERFDATA_USER_TYPE_START = 64,
};

#define MAGIC 0x32454c4946524550ull /* "PERFILE2" */
enum { FILE_HEADER = 104, FILE_SECTION = 16 };

enum feature_bit { /* tools/perf/util/header.h */
		   FEATURE_BIT_BUILD_ID = 2,
		   FEATURE_BIT_HOSTNAME = 3,
		   FEATURE_BIT_OSRELEASE = 4,
		   FEATURE_BIT_VERSION = 5,
		   FEATURE_BIT_ARCH = 6,
		   FEATURE_BIT_NRCPUS = 7,
		   FEATURE_BIT_CPUDESC = 8,
		   FEATURE_BIT_TOTAL_MEM = 10,
		   FEATURE_BIT_CMDLINE = 11,
		   FEATURE_BIT_EVENT_DESC = 12,
		   FEATURE_BIT_SAMPLE_TIME = 21,
		   FEATURE_BIT_CLOCKID = 23,
		   FEATURE_BIT_CLOCK_DATA = 29,
};

/* A piece of memory that records lie in. */
struct block {
	uint8_t *data;
	uint32_t users; /* records given out or waiting; a stream that still fills it */
	uint64_t
		left_out; /* bytes of the file between the first record and the last, of copies of stacks */
};

/* Where whole records are taken out of bytes that come piece by piece. */
struct stream {
	uint32_t block; /* BLOCK_NONE: none yet */
	size_t at, filled;
};

struct waiting {
	uint64_t time, order;
	const struct perf_event_header *record;
	uint32_t block;
	uint16_t event; /* PERFDATA_MAX_EVENTS fit */
	bool own;	/* perf itself made it */
};

struct perfdata {
	struct perfdata_info info;
	struct perfdata_counts counts;
	int fd;
	bool begun;	    /* to read records */
	bool ended;	    /* nothing more to read */
	bool finished;	    /* nothing more to take out of what was read */
	uint64_t data_left; /* bytes of the data section not read yet; pipe: UINT64_MAX */
	int64_t data_at;    /* where the records begin; -1: in a pipe */
	uint64_t data_size; /* of the records; UINT64_MAX: up to the end */
	uint64_t skip_left; /* bytes behind a record that are not records (AUXTRACE) */

	struct block *blocks;
	uint32_t *free_blocks; /* as much room as for blocks */
	size_t n_blocks, blocks_room, n_in_use, n_free;
	struct stream input, unpacked, aligned;
	struct perfdata_ahead *ahead; /* NULL: nothing is read ahead */
	struct perfdata_zstd *zstd;
	int window_log; /* of zstd: its window may have so many bits of bytes */
	bool unpacking; /* a compressed record is being worked on */
	bool build_ids_sorted;
	size_t build_id_bytes; /* of their paths */

	/* which event: word indexes from the front of samples, from the back of others */
	struct table event_of_id; /* id -> index */
	size_t n_ids;
	bool positions_known, by_id;
	size_t sample_id_at, other_id_at;
	struct record_layout own_layout; /* of what perf itself wrote */

	struct waiting *list; /* list[first] to list[n_ready - 1] may go; to list[n - 1] wait */
	size_t first, n_ready, n, room;
	struct perfdata_limits limits;
	uint64_t order, newest, flush_to, released;
};

/* perfdata-header.c.  @error as in perfdata_new(). */
int perfdata_read_header(struct perfdata *pd, char *error, size_t error_size);
/* A record of which the header has parts, in pipe mode: an attribute, a name, a feature, a build id.  -EBADMSG, -E2BIG: it is
 * left out. */
int perfdata_header_record(struct perfdata *pd, const struct perf_event_header *record);
void perfdata_info_deinit(struct perfdata_info *info);

/* perfdata-block.c */
enum { STREAM_DRY = 1 };
struct record_at {
	const struct perf_event_header *record; /* aligned */
	uint32_t block;
};
/* The next whole record of the input; STREAM_DRY: its end.  -EBADMSG: damage, described in
 * counts.damage. */
int perfdata_input(struct perfdata *pd, struct record_at *ret_at);
/* False: damage. */
static inline bool perfdata_is_possible(const struct perf_event_header *header)
{
	return header->size >= sizeof(*header) &&
	       (header->type >= PERFDATA_USER_TYPE_START || header->size % 8 == 0);
}
/* Blocks, the thread that reads ahead, and the zstd stream. */
void perfdata_blocks_deinit(struct perfdata *pd);

/* The next @len bytes of the thread that reads ahead are in the block, from BLOCK_HEAD on; 0: the
 * end.  Each later call returns the end, or the error, again. */
int perfdata_ahead_next(struct perfdata *pd, uint32_t *ret_block, size_t *ret_len);

/* perfdata-block.c */
/* Begins to unpack a compressed record. */
int perfdata_unpack_begin(struct perfdata *pd, const struct perf_event_header *record);
/* The next record out of it; STREAM_DRY: the compressed record is used up. */
int perfdata_unpack(struct perfdata *pd, struct record_at *ret_at);
/* Its memory, most of it the window that the file's writer chose.  @zstd may be NULL. */
size_t perfdata_zstd_bytes(const struct perfdata_zstd *zstd);
