/* sink.h - where finished packets go.  Thread: main (sink_threaded_new() has one more).
 * What is written is always whole `Trace.packet` fields (tag, length, TracePacket), so a file is
 * readable up to its last whole packet at any moment. */
#pragma once

#include "protos/trace.fields.h"
#include "protos/wire.h"

enum { SINK_PACKET_TAG = TRACE__PACKET << 3 | WIRE_BYTES };

struct sink_count {
	uint64_t packets;
	uint64_t samples; /* among them: PerfSamples that were not skipped and report no loss */
};

struct sink {
	/* Takes whole packets.  < 0: nothing more can be written (the session ends); what was there
	 * stays. */
	int (*write)(struct sink *sink, const void *data, size_t len);
	/* Hands what is buffered to the kernel. */
	int (*flush)(struct sink *sink);
	void (*free)(struct sink *sink); /* does not flush */
	uint64_t bytes;			 /* taken so far; after an error: in the file */
	/* Of a file: what the kernel has taken.  Exact after a flush and after an error. */
	struct sink_count written;
	uint64_t dropped; /* packets that it had no room for, where a sink may drop some */
	/* Set by the sink: packets were lost behind the writer's back, or readers may come to begin
	 * here.  The writer begins its incremental state again before the next packet that needs
	 * it, and clears this. */
	bool renew;
};

/* A file, mode 0600.  An existing regular one, or a symbolic link that leads to no device or pipe, is renamed to
 * PATH.old (-ENOTEMPTY: that is a directory).  A device or pipe is written into, but not where another user has laid
 * it, or a link to it, into a sticky directory (-ELOOP).  "-", /dev/stdout and /dev/fd/N are descriptors.  A
 * directory is -EISDIR.  A file that is still empty when the sink is freed goes away again, and the old one back
 * to its name. Buffers up to 256 KiB; the caller flushes at least once a second. */
int sink_file_new(const char *path, struct sink **ret_sink);
/* A regular file is treated as empty when the sink is freed. */
void sink_file_discard(struct sink *sink);
/* Consumes @fd. */
int sink_fd_new(int fd, struct sink **ret_sink);
/* Of a sink of a file or descriptor: the descriptor, borrowed. */
int sink_fd(struct sink *sink);
/* A sink of sink_fd_new() (@fd may have been -1 there) writes to @fd, which it consumes, as if it were new; the descriptor
 * before is closed. Allocates nothing. */
void sink_fd_restart(struct sink *sink, int fd);
/* Packs what it is given into compressed packets (a zlib stream in a packet of its own, as a
 * tracing service does when asked to compress) and hands them to @inner, which it consumes.  A
 * flush ends the packet under way. */
int sink_deflate_new(struct sink *inner, struct sink **ret_sink);
/* The inner sink was restarted: so is this one.  Allocates nothing. */
void sink_deflate_restart(struct sink *sink);
/* Gives what it is given to @inner in a thread of its own, which is the only one that writes to it
 * between flushes; consumes it.  `bytes` is right after a flush.  An error of @inner comes with a
 * later write or flush. */
int sink_threaded_new(struct sink *inner, struct sink **ret_sink);
/* The next of the packets given to a sink: the TracePacket without Trace's tag and length.  false
 * at the end, also when what stands there is no packet (then the cursor is bad). */
bool sink_next_packet(struct cursor *c, const void **ret_packet, size_t *ret_len);
/* Adds the packets of @data to *@count, as far as they are whole. */
void sink_count_add(struct sink_count *count, const void *data, size_t len);
/* Memory.  *ret_data is good until the next packet, clearing or freeing. */
int sink_memory_new(struct sink **ret_sink);
const void *sink_memory_data(struct sink *sink, size_t *ret_len);
/* No more than @most bytes are held: what comes then is dropped, and `renew` asked for. */
void sink_memory_limit(struct sink *sink, size_t most);
void sink_memory_clear(struct sink *sink);
struct sink *sink_free(struct sink *sink);
