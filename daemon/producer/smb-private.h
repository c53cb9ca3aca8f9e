/* smb-private.h - what the memory and its writers share.  Private to daemon/producer/smb*.c.  Thread:
 * main. */
#pragma once

#include <stdatomic.h>

#include "base/bytes.h"
#include "daemon/producer/smb.h"

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

/* A chunk of ours.  Where it is and how long was computed when it was taken. */
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
	bool inflated;	/* the header says one fragment more than there are */
	bool continues; /* the next fragment goes on with a packet of the chunk before */

	bool any_packet, lost; /* the next packet says so */
	bool tell;	       /* a loss that smb_writer_write() has not told yet */
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

/* Chunks in a page of @layout (0: not partitioned, or no layout), and their size. */
uint32_t smb_layout_chunks(uint32_t layout);
uint32_t smb_chunk_size(uint32_t page_size, uint32_t layout);

/* A free chunk, with a header.  SMB_FULL. */
int smb_chunk_take(struct smb *smb, uint16_t writer_id, uint32_t chunk_id, uint16_t packets,
		   struct smb_chunk *ret_chunk);
/* To the service, with its last header; it may commit.  @chunk is none afterwards.  SMB_DROPPED:
 * the service has taken it away meanwhile. */
int smb_chunk_give(struct smb *smb, struct smb_chunk *chunk, uint16_t packets,
		   uint32_t target_buffer);
void smb_chunk_publish(const struct smb_chunk *chunk, uint16_t packets);

/* Writes of what waits as much as there are chunks for. */
int smb_writer_pump(struct smb_writer *writer);
/* Gives the chunk under way back, if there is one. */
int smb_writer_give(struct smb_writer *writer);
