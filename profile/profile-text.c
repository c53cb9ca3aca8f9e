/* profile-text.c - see profile-text.h. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "profile/profile-text.h"

enum { TEXT_BAD = 0xfffd }; /* U+FFFD stands for what is not UTF-8 */

/* The next character of [*p, end), which must not be empty.  A byte that does not begin a
 * well-formed sequence gives TEXT_BAD and is one character. */
static uint32_t next_char(const char **p, const char *end)
{
	const uint8_t *s = (const uint8_t *)*p;
	size_t left = (size_t)(end - *p), len = 0;
	uint32_t c = 0, least = 0;

	++*p;
	if (s[0] < 0x80)
		return s[0];
	if (s[0] >= 0xc2 && s[0] < 0xe0) {
		len = 2, c = s[0] & 0x1f, least = 0x80;
	} else if (s[0] >= 0xe0 && s[0] < 0xf0) {
		len = 3, c = s[0] & 0xf, least = 0x800;
	} else if (s[0] >= 0xf0 && s[0] < 0xf5) {
		len = 4, c = s[0] & 0x7, least = 0x10000;
	}
	if (!len || len > left)
		return TEXT_BAD;
	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return TEXT_BAD;
		c = c << 6 | (s[i] & 0x3f);
	}
	/* Overlong forms, surrogates, and what is not Unicode. */
	if (c < least || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
		return TEXT_BAD;
	*p += len - 1;
	return c;
}

/* Controls, also C1, line and paragraph separators and marks that turn the direction of text. */
static bool is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 ||
	       (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0x200e ||
	       c == 0x200f || c == 0xfeff;
}

static void append_char(struct buffer *b, uint32_t c)
{
	char utf8[4];

	buffer_append(b, utf8, utf8_encode(c, utf8));
}

void text_clean(struct buffer *b, const char *text)
{
	const char *end = text + strlen(text);

	while (text < end) {
		const char *plain = text;
		uint32_t c;

		while (text < end && *text >= ' ' && *text < 0x7f)
			text++;
		if (text > plain) {
			buffer_append(b, plain, (size_t)(text - plain));
			continue;
		}
		c = next_char(&text, end);
		append_char(b, is_control(c) ? '?' : c);
	}
}

/* Enough of East Asian Width to keep columns straight; a wrong guess costs alignment, nothing else.
 */
static size_t char_columns(uint32_t c)
{
	if ((c >= 0x300 && c < 0x370) || c == 0x200b || c == 0x200c || c == 0x200d ||
	    (c >= 0xfe00 && c < 0xfe10))
		return 0;
	if ((c >= 0x1100 && c < 0x1160) || (c >= 0x2e80 && c < 0xa4d0) ||
	    (c >= 0xac00 && c < 0xd7a4) || (c >= 0xf900 && c < 0xfb00) ||
	    (c >= 0xfe30 && c < 0xfe70) || (c >= 0xff00 && c < 0xff61) ||
	    (c >= 0x1f300 && c < 0x1f650) || (c >= 0x1f900 && c < 0x1fa00) ||
	    (c >= 0x20000 && c < 0x40000))
		return 2;
	return 1;
}

size_t text_columns(const char *text, size_t len)
{
	const char *end = text + len;
	size_t columns = 0;

	while (text < end)
		columns += char_columns(next_char(&text, end));
	return columns;
}

/* Up to where the text takes at most @columns columns; *ret_used: the columns that it takes. */
static const char *fit_start(const char *text, const char *end, size_t columns, size_t *ret_used)
{
	size_t used = 0;

	while (text < end) {
		const char *next = text;
		size_t more = char_columns(next_char(&next, end));

		if (used + more > columns)
			break;
		used += more;
		text = next;
	}
	*ret_used = used;
	return text;
}

size_t text_fit(struct buffer *b, const char *text, size_t len, size_t columns)
{
	const char *end = text + len, *head, *tail;
	size_t all = text_columns(text, len), keep, used, skipped;

	if (all <= columns) {
		buffer_append(b, text, len);
		return all;
	}
	if (!columns)
		return 0;
	keep = columns - 1;
	head = fit_start(text, end, keep - keep / 3, &used);
	buffer_append(b, text, (size_t)(head - text));
	buffer_append(b, "…", strlen("…"));
	/* The tail begins where what is left fits. */
	tail = head;
	for (skipped = 0; tail < end && all - used - skipped > keep / 3;)
		skipped += char_columns(next_char(&tail, end));
	buffer_append(b, tail, (size_t)(end - tail));
	return all - skipped + 1;
}

size_t text_fit_clean(struct buffer *b, const char *text, size_t columns)
{
	_cleanup_(buffer_deinit) struct buffer clean = {0};

	text_clean(&clean, text);
	b->bad |= clean.bad;
	return text_fit(b, clean.len ? (const char *)clean.data : "", clean.len,
			columns ? columns : SIZE_MAX / 4);
}

static inline bool is_unsafe_in_page(uint32_t c)
{
	return c == '<' || c == '>' || c == '&' || c == '\'' || (c >= 0x80 && c < 0xa0) ||
	       c == 0x2028 || c == 0x2029;
}

/* Inline: @page is known to each caller. */
static inline __attribute__((always_inline)) void append_json(struct buffer *b, const char *text,
							      size_t len, bool page)
{
	const char *end = text + len;

	buffer_append(b, "\"", 1);
	while (text < end) {
		uint32_t c = next_char(&text, end);

		if (c == '"' || c == '\\')
			buffer_printf(b, "\\%c", (char)c);
		else if (c < 0x20 || c == 0x7f || (page ? is_unsafe_in_page(c) : c == TEXT_BAD))
			buffer_printf(b, "\\u%04x", c);
		else
			append_char(b, c);
	}
	buffer_append(b, "\"", 1);
}

void text_json(struct buffer *b, const char *text, size_t len)
{
	append_json(b, text, len, true);
}

void text_json_append(struct buffer *b, const char *before, const char *text)
{
	buffer_append(b, before, strlen(before));
	if (text)
		append_json(b, text, strlen(text), true);
	else
		buffer_append(b, "null", 4);
}

void text_json_print(FILE *out, const char *before, const char *text)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};

	if (text)
		append_json(&b, text, strlen(text), false);
	fprintf(out, "%s%.*s", before, text ? (int)b.len : 4, text ? (const char *)b.data : "null");
}

void text_print(FILE *out, const char *text)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};

	text_clean(&b, text);
	if (b.len)
		(void)fwrite(b.data, 1, b.len, out);
}

void text_csv(struct buffer *b, const char *text)
{
	_cleanup_(buffer_deinit) struct buffer clean = {0};

	text_clean(&clean, text);
	buffer_append(b, "\"", 1);
	for (size_t i = 0; i < clean.len; i++)
		buffer_append(b, clean.data[i] == '"' ? "\"\"" : (char *)&clean.data[i],
			      clean.data[i] == '"' ? 2 : 1);
	buffer_append(b, "\"", 1);
	b->bad |= clean.bad;
}

void text_html(struct buffer *b, const char *text, size_t len)
{
	const char *end = text + len;

	while (text < end) {
		uint32_t c = next_char(&text, end);

		if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'')
			buffer_printf(b, "&#%u;", c);
		else
			append_char(b, is_control(c) ? '?' : c);
	}
}

const char *text_count(uint64_t value, char to[32])
{
	char digits[24];
	size_t n = (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value),
	       at = 0;

	for (size_t i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			to[at++] = ',';
		to[at++] = digits[i];
	}
	to[at] = 0;
	return to;
}

const char *text_size(uint64_t bytes, char to[32])
{
	if (bytes < 10 << 10)
		(void)snprintf(to, 32, "%llu bytes", (unsigned long long)bytes);
	else if (bytes < 10 << 20)
		(void)snprintf(to, 32, "%.0f KiB", (double)bytes / 1024);
	else
		(void)snprintf(to, 32, "%.1f MiB", (double)bytes / (1 << 20));
	return to;
}

/* Four digits: columns of these numbers look even. */
static const char *print_scaled(double value, const char *suffix, char to[32])
{
	int decimals = value < 9.9995 ? 3 : value < 99.995 ? 2 : value < 999.95 ? 1 : 0;

	(void)snprintf(to, 32, "%.*f%s", decimals, value, suffix);
	return to;
}

const char *text_weight(uint64_t value, const char *unit, char to[32])
{
	static const struct {
		double from;
		const char *time, *number;
	} steps[] = {{1e9, " s", " G"}, {1e6, " ms", " M"}, {1e3, " us", " k"}};
	bool time = !strcmp(unit, "ns");

	/* Rounding must not give "1000 ms". */
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		if ((double)value >= steps[i].from * 0.99995)
			return print_scaled((double)value / steps[i].from,
					    time ? steps[i].time : steps[i].number, to);
	(void)snprintf(to, 32, "%u%s", (unsigned)value, time && value ? " ns" : "");
	return to;
}

double text_percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

const char *text_share(uint64_t part, uint64_t whole, char to[32])
{
	double percent = text_percent(part, whole);

	if (part && percent < 0.005)
		(void)snprintf(to, 32, "< 0.01 %%");
	else if (part < whole && percent >= 99.995)
		(void)snprintf(to, 32, "> 99.99 %%");
	else
		(void)snprintf(to, 32, "%.2f %%", percent);
	return to;
}

int text_finish(FILE *out)
{
	/* An earlier write may be the one that failed; nothing that succeeds changes its errno. */
	if (!fflush(out) && !ferror(out))
		return 0;
	return fail(errno == ENOSPC || errno == EBADF ? -errno : -EIO);
}
