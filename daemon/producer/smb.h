/* smb.h - a tracing service's shared memory: packets go into chunks that the service reads and
 * frees.  Thread: main (any number of writers, one thread); the other side is the service's process.
 *
 *   memory  = pages of 4 to 64 KiB, each cut into 1, 2, 4, 7 or 14 chunks by the side that takes it first
 *   page    = [u32 layout and 14 chunk states][u32 0] chunks...
 *   chunk   = [u32 chunk id][u16 writer id][u16 fragments | flags << 10] fragments...
 *   states  = Free -> BeingWritten -> Complete (by us) -> BeingRead -> Free (by the service)
 *
 * No function waits.  A packet that finds no free chunk is kept in the writer's own memory, up to a bound, beyond
 * which it is dropped, counted and reported; the first packet after a loss has previous_packet_dropped, the
 * first packet of a writer first_packet_on_sequence.
 *
 * Nothing that the service writes into the memory is trusted: addresses and counts are kept here, page words only
 * choose among chunks inside the memory, and every loop has a bound. */
#pragma once

#include "base/bytes.h"

struct smb;
struct smb_writer;

enum {
	SMB_DROPPED = 1, /* a packet was lost: incremental state must be written again */
	SMB_BEHIND = 2,	 /* packets still wait for free chunks */
};

/* ChunksToMove of a CommitData request. */
struct smb_move {
	uint32_t page, chunk, target_buffer;
};

struct smb_stats {
	uint64_t packets, bytes; /* accepted, also into the waiting room */
	uint64_t chunks;	 /* given to the service */
	uint64_t dropped;	 /* packets */
	uint64_t full;		 /* searches that found no free chunk */
	uint64_t damaged;	 /* chunks that the service took away while a writer had them */
	uint64_t max_waiting;	 /* bytes of one writer */
};

/* Sends a CommitData of @n moves (at most SMB_MAX_MOVES, so that a frame stays below 128 KiB).
 * Called by writes and flushes when half of the memory is filled or none is free, and by smb_commit(); it must not
 * call functions of this module.  < 0 is passed on, the moves are lost. */
typedef int smb_commit_fn(void *arg, const struct smb_move *moves, size_t n);
enum { SMB_MAX_MOVES = 4096 };

/* Consumes @fd, also on failure.  @page_size in bytes, from SetupTracing (1 KiB units there).
 * -EPERM: the service could truncate the memory (no F_SEAL_SHRINK, or huge pages); -EINVAL: a size that the format
 * does not have.  Both are logged. */
int smb_attach(int fd, uint32_t page_size, smb_commit_fn *commit, void *arg, struct smb **ret_smb);
/* After its writers. */
struct smb *smb_free(struct smb *smb);
/* Chunks filled since the last time, to the service: the caller's batching timer, and before a
 * flush is acknowledged. */
int smb_commit(struct smb *smb);
/* Bytes that wait for free chunks.  While there are any, call smb_pump() when a CommitData has been answered or
 * every few milliseconds: it writes them. */
size_t smb_waiting(const struct smb *smb);
int smb_pump(struct smb *smb);
const struct smb_stats *smb_stats(const struct smb *smb);

/* A packet sequence.  @max_waiting: bytes of packets kept while no chunk is free, 0 for none.
 * -EMFILE when all 32,767 ids are in use; an id is reused as late as possible, since the service would take the new
 * writer for the old one.  Borrows @smb. */
int smb_writer_new(struct smb *smb, uint32_t target_buffer, size_t max_waiting,
		   struct smb_writer **ret_writer);
uint16_t smb_writer_id(const struct smb_writer *writer);
/* One whole TracePacket, without Trace's tag and length.  0, SMB_DROPPED, or < 0 from committing.
 * SMB_DROPPED may also report an earlier packet that was lost since. */
int smb_writer_write(struct smb_writer *writer, const void *packet, size_t len);
/* Gives the current chunk to the service and commits.  SMB_BEHIND: packets wait for free chunks. */
int smb_writer_flush(struct smb_writer *writer);
size_t smb_writer_waiting(const struct smb_writer *writer);
/* Gives its chunk back (no commit); packets that wait are dropped. */
struct smb_writer *smb_writer_free(struct smb_writer *writer);

/* ---- the parts: for tests ---- */

enum {
	SMB_PAGE_HEADER = 8,
	SMB_CHUNK_HEADER = 8,
	SMB_MAX_CHUNKS = 14, /* in a page */
	SMB_MAX_WRITER_ID = 32767,
};
enum smb_state { SMB_FREE, SMB_BEING_WRITTEN, SMB_BEING_READ, SMB_COMPLETE };
enum { /* of the 6-bit field of a chunk's header */
       SMB_FIRST_CONTINUES = 1,
       SMB_LAST_CONTINUES = 2,
};
enum { SMB_FULL = 16 }; /* outcome: no free chunk */

/* A chunk that a writer has taken.  Its address and size were computed then. */
struct smb_chunk {
	uint8_t *data; /* NULL: none */
	uint32_t size, page, index, layout;
};

struct smb_writer {
	struct smb *smb;
	struct smb_writer *next;
	uint32_t target_buffer, chunk_id;
	uint16_t id;

	struct smb_chunk chunk;
	uint32_t used;	/* bytes of it, header included */
	uint32_t count; /* fragments begun */
	uint32_t flags;
	bool inflated;	/* the header has one fragment more than there are */
	bool continues; /* the next fragment continues a packet of the chunk before */

	bool any_packet, lost; /* marks in the next packet */
	bool reports_loss;     /* smb_writer_write() has yet to return SMB_DROPPED */
	bool closed;	       /* the waiting room was full, and is not yet half empty */

	/* [u32 length][packet] ...; begins at waiting_at, with the packet of which head_left bytes
	 * are still to be written (0: with a length). */
	struct buffer waiting;
	size_t waiting_at, head_left, max_waiting;
};

struct smb {
	uint8_t *base;
	size_t size;
	uint32_t page_size, n_pages, layout;
	uint32_t next_page; /* where the last chunk was found */
	bool full;	    /* the last search went over all pages */
	struct smb_writer *writers;
	uint32_t last_id;
	uint32_t ids[(SMB_MAX_WRITER_ID + 1) / 32];

	smb_commit_fn *commit;
	void *commit_arg;
	struct smb_move *moves;
	size_t n_moves, max_moves, move_bytes;
	struct smb_stats stats;
};

/* 0: @layout is none. */
uint32_t smb_chunk_size(uint32_t page_size, uint32_t layout);

/* A free chunk, with a header.  SMB_FULL. */
int smb_chunk_take(struct smb *smb, uint16_t writer_id, uint32_t chunk_id, uint16_t packets,
		   struct smb_chunk *ret_chunk);
/* To the service, with its last header; it may commit.  @chunk is empty afterwards.  SMB_DROPPED: the service
 * has taken it away in the meantime. */
int smb_chunk_give(struct smb *smb, struct smb_chunk *chunk, uint16_t packets,
		   uint32_t target_buffer);
