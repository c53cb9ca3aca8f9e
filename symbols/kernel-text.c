/* kernel-text.c - see kernel-text.h.  The line "ADDRESS T _text" is among the first. */
#include <string.h>
#include <unistd.h>

#include "symbols/kernel-text.h"

enum { HEAD_BYTES = 64 << 10 };

uint64_t kernel_text_start(int fd)
{
	static const char mark[] = " T _text\n";
	_cleanup_(freep) char *head = calloc(1, HEAD_BYTES + 1);
	const char *at;
	uint64_t start;
	size_t len = 0;
	ssize_t n;

	while (head && len < HEAD_BYTES && (n = read(fd, head + len, HEAD_BYTES - len)) > 0)
		len += (size_t)n;
	at = head ? strstr(head, mark) : NULL;
	if (!at || at - head < 16 || lseek(fd, 0, SEEK_SET) < 0)
		return 0;
	head[at - head] = 0;
	return parse_u64(at - 16, 16, UINT64_MAX, &start) < 0 ? 0 : start;
}
