/* smb.h - a tracing service's shared memory: packets go into chunks that the service reads and
 * frees.  Thread: main (any number of writers, one thread); the other side is the service's
 * process.
 *
 *   memory  = pages of 4 to 64 KiB, each cut into 1, 2, 4, 7 or 14 chunks by whoever takes it first
 *   page    = [u32 layout and 14 chunk states][u32 0] chunks...
 *   chunk   = [u32 chunk id][u16 writer id][u16 fragments | flags << 10] fragments...
 *   states  : Free -> BeingWritten -> Complete (ours), Complete -> BeingRead -> Free (the
 * service's)
 *
 * Nothing here waits.  A packet that finds no free chunk waits in the writer's own memory up to a
 * bound, beyond which it is dropped, counted, and told; the first packet behind a loss says so
 * (previous_packet_dropped), the first of a writer says that too (first_packet_on_sequence).
 *
 * Nothing that the service writes into the memory is believed: addresses and counts are kept here,
 * page words only choose among chunks that lie inside the memory, and every loop has a bound. */
#pragma once

#include "base/util.h"

struct smb;
struct smb_writer;

enum {
	SMB_DROPPED = 1, /* a packet was lost: incremental state must be written anew */
	SMB_BEHIND = 2,	 /* packets still wait for free chunks */
};

/* ChunksToMove of a CommitData request. */
struct smb_move {
	uint32_t page, chunk, target_buffer;
};

struct smb_stats {
	uint64_t packets, bytes; /* taken, also into the waiting room */
	uint64_t chunks;	 /* given to the service */
	uint64_t dropped;	 /* packets */
	uint64_t full;		 /* searches that found no free chunk */
	uint64_t damaged;	 /* chunks whose state the service changed while they were ours */
	uint64_t max_waiting;	 /* bytes of one writer */
};

/* Sends a CommitData of @n moves (at most SMB_MAX_MOVES, so that a frame stays below 128 KiB).
 * Called by writes and flushes when half of the memory is filled or none is free, and by
 * smb_commit(); it must not call back into the memory.  < 0 is passed up, the moves are gone. */
typedef int smb_commit_fn(void *arg, const struct smb_move *moves, size_t n);
enum { SMB_MAX_MOVES = 4096 };

/* Consumes @fd, also on failure.  @page_size in bytes, from SetupTracing (1 KiB units there).
 * -EPERM: the memory could be cut short under us (no F_SEAL_SHRINK, or huge pages); -EINVAL: a size
 * that the format has not.  Both are logged. */
int smb_attach(int fd, uint32_t page_size, smb_commit_fn *commit, void *arg, struct smb **ret_smb);
/* After its writers. */
struct smb *smb_free(struct smb *smb);
/* Chunks filled since the last time, to the service: the caller's batching timer, and before a
 * flush is acknowledged. */
int smb_commit(struct smb *smb);
/* Bytes that wait for free chunks.  While there are any, call smb_pump() when a CommitData has been
 * answered or every few milliseconds: it writes on. */
size_t smb_waiting(const struct smb *smb);
int smb_pump(struct smb *smb);
const struct smb_stats *smb_stats(const struct smb *smb);

/* A packet sequence.  @max_waiting: bytes of packets kept while no chunk is free, 0 for none.
 * -EMFILE when all 32,767 ids are in use; an id comes again as late as possible, since the service
 * would take the new writer for the old one.  Borrows @smb. */
int smb_writer_new(struct smb *smb, uint32_t target_buffer, size_t max_waiting,
		   struct smb_writer **ret_writer);
uint16_t smb_writer_id(const struct smb_writer *writer);
/* One whole TracePacket, without Trace's tag and length.  0, SMB_DROPPED, or < 0 from committing.
 * SMB_DROPPED may also tell of an earlier packet that was lost since. */
int smb_writer_write(struct smb_writer *writer, const void *packet, size_t len);
/* Gives the chunk under way to the service and commits.  SMB_BEHIND: what waits is not in it. */
int smb_writer_flush(struct smb_writer *writer);
size_t smb_writer_waiting(const struct smb_writer *writer);
/* Gives its chunk back (no commit); what still waits is dropped. */
struct smb_writer *smb_writer_free(struct smb_writer *writer);
