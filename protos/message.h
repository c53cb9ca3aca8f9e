/* message.h - protobuf messages out of foreign bytes.  Thread: any. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/util.h"

/* Returns a new message, to be freed with protobuf_c_message_free_unpacked().  NULL: not this message,
 * more than @most fields at its top level, or no memory.  The bound is needed because protobuf-c merges
 * a field that comes twice, and would do so thousands of times.  Depth is bounded by the descriptor:
 * for messages that do not nest in themselves. */
ProtobufCMessage *message_unpack(const ProtobufCMessageDescriptor *descriptor, const void *data,
				 size_t len, size_t most);

static inline void message_freep(void *p)
{
	protobuf_c_message_free_unpacked(*(ProtobufCMessage **)p, NULL);
}
