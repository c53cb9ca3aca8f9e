/* message.c - see message.h. */
#include "protos/message.h"

#include "protos/wire.h"

ProtobufCMessage *message_unpack(const ProtobufCMessageDescriptor *descriptor, const void *data,
				 size_t len, size_t most)
{
	struct wire_field field;
	struct cursor c;
	size_t n = 0;

	if (!len) /* protobuf-c has given NULL for an empty message */
		data = "";
	c = cursor_of(data, len);
	while (wire_next(&c, &field))
		if (++n > most)
			return NULL;
	return c.bad ? NULL : protobuf_c_message_unpack(descriptor, NULL, len, data);
}
