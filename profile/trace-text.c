/* trace-text.c - see trace-text.h.  The descriptors of protobuf-c give names and types; the wire format
 * is read in place, so that a damaged packet is printed up to its damage. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "profile/trace-text.h"
#include "protos/trace.fields.h"
#include "protos/trace.pb-c.h"
#include "protos/trace_config.pb-c.h"
#include "protos/wire.h"

enum {
	MAX_PACKET = 32 << 20, /* writers keep below 1 MiB */
	MAX_DEPTH = 32,
	PIECE = 64 << 10,
};

struct dump {
	FILE *out;
	uint64_t n_packets;
	char *error;
	size_t error_size;
	bool unpacking; /* inside of a compressed packet */
};

static int broken(struct dump *d, const char *what)
{
	(void)snprintf(d->error, d->error_size, "%s in packet %" PRIu64, what, d->n_packets);
	return fail(-EBADMSG);
}

/* ---- values ---- */

static void put_bytes(FILE *out, const uint8_t *data, size_t len)
{
	fputc('"', out);
	for (size_t i = 0; i < len; i++) {
		if (data[i] == '"' || data[i] == '\\')
			fprintf(out, "\\%c", data[i]);
		else if (data[i] == '\n')
			fputs("\\n", out);
		else if (data[i] >= 0x20 && data[i] < 0x7f)
			fputc(data[i], out);
		else
			fprintf(out, "\\%03o", data[i]);
	}
	fputc('"', out);
}

static void put_enum(FILE *out, const ProtobufCFieldDescriptor *field, uint64_t value)
{
	const ProtobufCEnumValue *v =
		protobuf_c_enum_descriptor_get_value(field->descriptor, (int)value);

	if (v)
		fputs(v->name, out);
	else
		fprintf(out, "%d", (int)value);
}

static void put_float(FILE *out, uint64_t bits, bool is_double)
{
	uint32_t half = (uint32_t)bits;
	double d;
	float f;

	memcpy(&d, &bits, sizeof(d));
	memcpy(&f, &half, sizeof(f));
	fprintf(out, "%.17g", is_double ? d : (double)f);
}

static void put_value(FILE *out, const ProtobufCFieldDescriptor *field, uint64_t value)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SFIXED32:
		fprintf(out, "%" PRId32, (int32_t)value);
		break;
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SFIXED64:
		fprintf(out, "%" PRId64, (int64_t)value);
		break;
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SINT64:
		fprintf(out, "%" PRId64, (int64_t)(value >> 1 ^ -(value & 1)));
		break;
	case PROTOBUF_C_TYPE_BOOL:
		fputs(value ? "true" : "false", out);
		break;
	case PROTOBUF_C_TYPE_ENUM:
		put_enum(out, field, value);
		break;
	case PROTOBUF_C_TYPE_FLOAT:
	case PROTOBUF_C_TYPE_DOUBLE:
		put_float(out, value, field->type == PROTOBUF_C_TYPE_DOUBLE);
		break;
	default:
		fprintf(out, "%" PRIu64, value);
	}
}

/* ---- messages ---- */

static int put_message(struct dump *d, const ProtobufCMessageDescriptor *message, struct cursor c,
		       unsigned depth);

static int put_nested(struct dump *d, const char *name, const ProtobufCMessageDescriptor *message,
		      const struct wire_field *f, unsigned depth)
{
	int r;

	if (depth >= MAX_DEPTH)
		return broken(d, "messages nested too deep");
	fprintf(d->out, "%*s%s {\n", (int)depth * 2, "", name);
	r = put_message(d, message, wire_message(f), depth + 1);
	fprintf(d->out, "%*s}\n", (int)depth * 2, "");
	return r < 0 ? trace(r) : 0;
}

/* The numbers of a packed list, each on a line of its own. */
static int put_packed(struct dump *d, const ProtobufCFieldDescriptor *field,
		      const struct wire_field *f, unsigned depth)
{
	struct cursor c = wire_message(f);

	while (cursor_left(&c)) {
		uint64_t value = wire_varint(&c);

		if (c.bad)
			return broken(d, "a damaged list");
		fprintf(d->out, "%*s%s: ", (int)depth * 2, "", field->name);
		put_value(d->out, field, value);
		fputc('\n', d->out);
	}
	return 0;
}

static int put_known(struct dump *d, const ProtobufCFieldDescriptor *field,
		     const struct wire_field *f, unsigned depth)
{
	bool is_bytes =
		field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES;

	if (f->wire == WIRE_BYTES && field->type == PROTOBUF_C_TYPE_MESSAGE)
		return put_nested(d, field->name, field->descriptor, f, depth);
	if (f->wire == WIRE_BYTES && !is_bytes)
		return put_packed(d, field, f, depth);
	if (f->wire != WIRE_BYTES && (is_bytes || field->type == PROTOBUF_C_TYPE_MESSAGE))
		return broken(d, "a number instead of bytes");
	fprintf(d->out, "%*s%s: ", (int)depth * 2, "", field->name);
	if (is_bytes)
		put_bytes(d->out, f->data, f->len);
	else
		put_value(d->out, field, f->value);
	fputc('\n', d->out);
	return 0;
}

static int put_field(struct dump *d, const ProtobufCMessageDescriptor *message,
		     const struct wire_field *f, unsigned depth)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field(message, f->number);
	bool of_packet = message == &pb__trace_packet__descriptor && f->wire == WIRE_BYTES;

	if (of_packet && f->number == TRACE_PACKET__TRACE_CONFIG)
		return put_nested(d, field->name, &pb__trace_config__descriptor, f, depth);
	if (of_packet && f->number == TRACE_PACKET__COMPRESSED_PACKETS)
		fprintf(d->out, "%*s# compressed_packets: %zu bytes\n", (int)depth * 2, "", f->len);
	else if (field)
		return put_known(d, field, f, depth);
	else if (f->wire == WIRE_BYTES)
		fprintf(d->out, "%*s# field %" PRIu32 ": %zu bytes\n", (int)depth * 2, "",
			f->number, f->len);
	else
		fprintf(d->out, "%*s# field %" PRIu32 ": %" PRIu64 "\n", (int)depth * 2, "",
			f->number, f->value);
	return 0;
}

static int put_message(struct dump *d, const ProtobufCMessageDescriptor *message, struct cursor c,
		       unsigned depth)
{
	struct wire_field f;
	int r = 0;

	while (r >= 0 && wire_next(&c, &f))
		r = put_field(d, message, &f, depth);
	if (r >= 0 && c.bad)
		r = broken(d, "a damaged field");
	return r < 0 ? trace(r) : 0;
}

/* ---- packets ---- */

static int feed(struct dump *d, struct buffer *held, const uint8_t *data, size_t len);

static int unpack(struct dump *d, const struct wire_field *f)
{
	_cleanup_(buffer_deinit) struct buffer held = {0};
	uint8_t piece[PIECE / 4];
	z_stream z = {.next_in = (uint8_t *)f->data, .avail_in = (unsigned)f->len};
	int r = 0, status = Z_OK;

	if (d->unpacking)
		return broken(d, "compressed packets within compressed packets");
	if (inflateInit(&z) != Z_OK)
		return fail(-ENOMEM);
	d->unpacking = true;
	while (r >= 0 && status == Z_OK) {
		z.next_out = piece;
		z.avail_out = sizeof(piece);
		status = inflate(&z, Z_NO_FLUSH);
		/* On damage too: the packets before it. */
		r = feed(d, &held, piece, sizeof(piece) - z.avail_out);
	}
	(void)inflateEnd(&z);
	d->unpacking = false;
	if (r >= 0 && (status != Z_STREAM_END || held.len))
		r = broken(d, "damaged compressed packets");
	return r < 0 ? trace(r) : 0;
}

static int put_packet(struct dump *d, const uint8_t *data, size_t len)
{
	struct cursor c = cursor_of(data, len);
	struct wire_field f;
	int r;

	fprintf(d->out, "%s# packet %" PRIu64 ", %zu bytes\npacket {\n", d->n_packets ? "\n" : "",
		d->n_packets + 1, len);
	d->n_packets++;
	r = put_message(d, &pb__trace_packet__descriptor, c, 1);
	fputs("}\n", d->out);
	while (r >= 0 && wire_next(&c, &f))
		if (wire_is_bytes(&f, TRACE_PACKET__COMPRESSED_PACKETS))
			r = unpack(d, &f);
	return r < 0 ? trace(r) : 0;
}

/* Prints the packets of @held and @data that are whole, and keeps the rest in @held. */
static int feed(struct dump *d, struct buffer *held, const uint8_t *data, size_t len)
{
	size_t used = 0;
	int r = 0;

	buffer_append(held, data, len);
	if (held->bad)
		return fail(-ENOMEM);
	while (r >= 0 && used < held->len) {
		struct cursor c = cursor_of(held->data + used, held->len - used);
		uint64_t tag = wire_varint(&c), size = c.bad ? 0 : wire_varint(&c);

		if (c.bad && held->len - used < 2 * PACK_VARINT_MAX)
			break;
		if (c.bad || tag != (TRACE__PACKET << 3 | WIRE_BYTES) || size > MAX_PACKET) {
			(void)snprintf(d->error, d->error_size,
				       "no packet of a trace after packet %" PRIu64, d->n_packets);
			return fail(-EBADMSG);
		}
		if (size > cursor_left(&c))
			break;
		r = put_packet(d, c.p, size);
		used = (size_t)(c.p + size - held->data);
	}
	held->len -= used;
	memmove(held->data, held->data + used, held->len);
	return r < 0 ? trace(r) : 0;
}

int trace_text(int fd, FILE *out, char *error, size_t error_size)
{
	struct dump d = {.out = out, .error = error, .error_size = error_size};
	_cleanup_(buffer_deinit) struct buffer held = {0};
	_cleanup_(freep) uint8_t *piece = malloc(PIECE);
	ssize_t n;
	int r = piece ? 0 : fail(-ENOMEM);

	*error = 0;
	while (r >= 0 && !ferror(out) && (n = read(fd, piece, PIECE)) != 0)
		r = n < 0 ? (errno == EINTR ? 0 : fail(-errno)) : feed(&d, &held, piece, (size_t)n);
	if (r >= 0 && held.len && !ferror(out)) {
		(void)snprintf(error, error_size, "cut off after packet %" PRIu64, d.n_packets);
		r = fail(-EBADMSG);
	}
	if (r < 0 && !*error)
		(void)snprintf(error, error_size, "%s", strerror(-r));
	return r < 0 ? trace(r) : 0;
}
