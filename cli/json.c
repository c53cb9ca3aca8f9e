/* json.c - see json.h.  Paths and names can hold any bytes; JSON must be UTF-8. */
#include <stddef.h>

#include "cli/json.h"

/* The length of the UTF-8 sequence at @s, or 0 if invalid (RFC 3629: shortest form, no surrogates, at most U+10FFFF). */
static size_t utf8_length(const unsigned char *s)
{
	static const struct {
		unsigned char first, last, low, high; /* of the first byte; of the second */
		size_t len;
	} forms[] = {
		{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
		{0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
		{0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (*s < forms[i].first || *s > forms[i].last)
			continue;
		if (s[1] < forms[i].low || s[1] > forms[i].high)
			return 0;
		for (size_t j = 2; j < forms[i].len; j++)
			if ((s[j] & 0xc0) != 0x80)
				return 0;
		return forms[i].len;
	}
	return 0;
}

void json_string(FILE *out, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	fputc('"', out);
	while (*s) {
		size_t len = *s < 0x80 ? 1 : utf8_length(s);

		if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if (*s < 0x20 || *s == 0x7f)
			fprintf(out, "\\u%04x", *s);
		else if (!len)
			fputs("\\ufffd", out);
		else
			fwrite(s, 1, len, out);
		s += len ? len : 1;
	}
	fputc('"', out);
}
