/* log.c - see log.h.  One write() a line, so that lines of two threads never mix. */
#include <stdatomic.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

enum log_level log_level = LOG_LEVEL_NORMAL;
const char *log_folders;

/* Names of files, events and programs may hold any bytes: no control character gets to a terminal,
 * except the ends of our own lines.  C1 controls are two bytes in UTF-8. */
static void clean(char *p, const char *end)
{
	for (; p < end; p++) {
		const unsigned char c = (unsigned char)*p;

		if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
			*p = '?';
		else if (c == 0xc2 && p + 1 < end && ((unsigned char)p[1] & 0xe0) == 0x80)
			p[0] = p[1] = '?';
	}
}

static atomic_bool live_line;

void log_live_line(bool stands)
{
	atomic_store(&live_line, stands);
}

static bool is_in_log_folders(const char *file)
{
	const char *at = log_folders;

	while (at && *at) {
		size_t len = strcspn(at, ",");

		if (len && !strncmp(file, at, len) && strchr(file + len, '/'))
			return true;
		at += len + (at[len] == ',');
	}
	return !log_folders;
}

void log_print_from(const char *file, enum log_level level, const char *format, ...)
{
	static const char clear[] = "\r\033[K", name[] = "perfwind: ";
	int saved = errno;
	char line[1024];
	size_t prefix;
	va_list ap;
	int n;

	if (level > log_level || (level >= LOG_LEVEL_VERBOSE && !is_in_log_folders(file)))
		return;
	prefix = (size_t)snprintf(line, sizeof(line), "%s%s",
				  atomic_exchange(&live_line, false) ? clear : "", name);
	va_start(ap, format);
	n = vsnprintf(line + prefix, sizeof(line) - prefix - 1, format, ap);
	va_end(ap);
	if (n >= 0) {
		size_t len = prefix + min_u64((uint64_t)n, sizeof(line) - prefix - 2);

		clean(line + prefix, line + len);
		line[len++] = '\n';
		(void)!write(STDERR_FILENO, line, len);
	}
	errno = saved;
}

int error_note(int r, const char *kind, const char *file, int line)
{
	if (r < 0)
		log_print_from(file, LOG_LEVEL_DEBUG, "%s:%d: %s: %s", file, line, kind,
			       strerror(-r));
	return r;
}
