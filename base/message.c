/* message.c - see message.h. */
#include "base/message.h"

#include "base/bytes.h"

static bool skip_value(struct cursor *c, uint64_t wire)
{
	switch (wire) {
	case 0:
		(void)cursor_uleb(c);
		break;
	case 1:
		(void)cursor_bytes(c, 8);
		break;
	case 2:
		(void)cursor_bytes(c, cursor_uleb(c));
		break;
	case 5:
		(void)cursor_bytes(c, 4);
		break;
	default:
		return false;
	}
	return !c->bad;
}

ProtobufCMessage *message_unpack(const ProtobufCMessageDescriptor *descriptor, const void *data,
				 size_t len, size_t most)
{
	struct cursor c;
	size_t n = 0;

	if (!len) /* then protobuf-c has given NULL for it */
		data = "";
	c = cursor_of(data, len);
	while (cursor_left(&c)) {
		uint64_t tag = cursor_uleb(&c);

		if (++n > most || !(tag >> 3) || !skip_value(&c, tag & 7))
			return NULL;
	}
	return protobuf_c_message_unpack(descriptor, NULL, len, data);
}
