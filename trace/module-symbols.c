/* module-symbols.c - see module-symbols.h. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "protos/trace.fields.h"
#include "protos/wire.h"
#include "trace/module-symbols.h"
#include "trace/sink.h"

enum { MAX_TEXT = 16 << 10 };

static size_t text_size(const char *text)
{
	return text ? strnlen(text, MAX_TEXT) : 0;
}

static size_t line_size(const struct writer_line *line)
{
	size_t file = text_size(line->file);

	return pack_bytes_size(LINE__FUNCTION_NAME, text_size(line->function)) +
	       (file ? pack_bytes_size(LINE__SOURCE_FILE_NAME, file) : 0) +
	       (line->line ? pack_number_size(LINE__LINE_NUMBER, line->line) : 0) +
	       (line->kind > FRAME_KERNEL
			? pack_bytes_size(LINE__PERFWIND_KIND, strlen(frame_kind_name(line->kind)))
			: 0);
}

int module_symbols_add(struct buffer *b, uint64_t rel_pc, const struct writer_line *lines, size_t n)
{
	size_t body = pack_number_size(ADDRESS_SYMBOLS__ADDRESS, rel_pc);
	uint8_t *p;

	for (size_t i = 0; i < n; i++)
		body += pack_bytes_size(ADDRESS_SYMBOLS__LINES, line_size(&lines[i]));
	p = buffer_reserve(b, pack_bytes_size(MODULE_SYMBOLS__ADDRESS_SYMBOLS, body));
	if (!p)
		return fail(-ENOMEM);
	p = pack_number(pack_head(p, MODULE_SYMBOLS__ADDRESS_SYMBOLS, body),
			ADDRESS_SYMBOLS__ADDRESS, rel_pc);
	for (size_t i = 0; i < n; i++) {
		const struct writer_line *line = &lines[i];

		p = pack_head(p, ADDRESS_SYMBOLS__LINES, line_size(line));
		p = pack_bytes(p, LINE__FUNCTION_NAME, line->function, text_size(line->function));
		if (text_size(line->file))
			p = pack_bytes(p, LINE__SOURCE_FILE_NAME, line->file,
				       text_size(line->file));
		if (line->line)
			p = pack_number(p, LINE__LINE_NUMBER, line->line);
		if (line->kind > FRAME_KERNEL)
			p = pack_bytes(p, LINE__PERFWIND_KIND, frame_kind_name(line->kind),
				       strlen(frame_kind_name(line->kind)));
	}
	b->len = (size_t)(p - b->data);
	return 0;
}

int module_symbols_packet(struct buffer *b, const char *path, const uint8_t *build_id,
			  size_t build_id_len, const struct buffer *symbols)
{
	size_t body = pack_bytes_size(MODULE_SYMBOLS__PATH, strlen(path)) + symbols->len;
	size_t len;
	uint8_t *p;

	if (build_id_len)
		body += pack_bytes_size(MODULE_SYMBOLS__BUILD_ID, build_id_len);
	len = pack_bytes_size(TRACE_PACKET__MODULE_SYMBOLS, body);
	p = buffer_reserve(b, pack_bytes_size(TRACE__PACKET, len));
	if (!p)
		return fail(-ENOMEM);
	p = pack_head(pack_head(p, TRACE__PACKET, len), TRACE_PACKET__MODULE_SYMBOLS, body);
	p = pack_bytes(p, MODULE_SYMBOLS__PATH, path, strlen(path));
	if (build_id_len)
		p = pack_bytes(p, MODULE_SYMBOLS__BUILD_ID, build_id, build_id_len);
	memcpy(p, symbols->data, symbols->len);
	b->len = (size_t)(p + symbols->len - b->data);
	return 0;
}
