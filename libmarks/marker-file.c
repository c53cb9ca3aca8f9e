/* marker-file.c - trace_marker, answered inside the program: what it writes there becomes marks.  Thread: any.
 *
 * The functions exported here replace the libc's functions of the same name.  While a recording wants text (MARKS_TEXT), a
 * program that opens trace_marker for writing and may not, or that does not find the file, gets a descriptor of /dev/null, and
 * what it writes to that number goes into the ring without a system call.  All else goes to the libc untouched.
 *
 * A bit for each descriptor: set by open and dup, cleared by close.  A number that is closed by a system call of the
 * program's own keeps its bit until the libc opens something there; so only what has the form of a mark is kept from the
 * file, and other text is written to it too.
 *
 * A FILE has no place for this: fopen() and fdopen() give a stream of fopencookie(), and fileno() its descriptor. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "libmarks/marks.h"

#define EXPORTED __attribute__((visibility("default")))
#pragma weak fopencookie

enum { DESCRIPTORS = 1 << 16, FILES = 32 };

static atomic_uchar marker[DESCRIPTORS / 8];
static atomic_int n_markers;
static struct {
	_Atomic(FILE *) file;
	int fd;
} files[FILES];
static atomic_int n_files;

enum real {
	REAL_OPEN,
	REAL_OPEN64,
	REAL_OPENAT,
	REAL_OPENAT64,
	REAL_OPEN_2,
	REAL_OPEN64_2,
	REAL_OPENAT_2,
	REAL_OPENAT64_2,
	REAL_CREAT,
	REAL_CREAT64,
	REAL_CLOSE,
	REAL_CLOSE_RANGE,
	REAL_CLOSEFROM,
	REAL_DUP,
	REAL_DUP2,
	REAL_DUP3,
	REAL_FCNTL,
	REAL_FCNTL64,
	REAL_WRITE,
	REAL_WRITEV,
	REAL_VDPRINTF,
	REAL_VDPRINTF_CHK,
	REAL_FOPEN,
	REAL_FOPEN64,
	REAL_FDOPEN,
	REAL_FILENO,
	REAL_FILENO_UNLOCKED,
	REALS
};
static const char *const names[REALS] = {
	"open",	      "open64",		 "openat",	 "openat64", "__open_2",
	"__open64_2", "__openat_2",	 "__openat64_2", "creat",    "creat64",
	"close",      "close_range",	 "closefrom",	 "dup",	     "dup2",
	"dup3",	      "fcntl",		 "fcntl64",	 "write",    "writev",
	"vdprintf",   "__vdprintf_chk",	 "fopen",	 "fopen64",  "fdopen",
	"fileno",     "fileno_unlocked",
};
static void *found[REALS];

static void *find(enum real which)
{
	if (!found[which])
		found[which] = dlsym(RTLD_NEXT, names[which]);
	if (!found[which])
		errno = ENOSYS;
	return found[which];
}
#define REAL(which, type) ((type)find(which))
typedef int open_function(const char *, int, ...);
typedef int openat_function(int, const char *, int, ...);

__attribute__((constructor)) static void marker_begin(void)
{
	int was = errno;

	for (enum real i = 0; i < REALS; i++)
		(void)find(i);
	(void)dlerror(); /* a function that the libc lacks is not an error of the program */
	errno = was;
}

/* ---- descriptors ---- */

static bool is_marker(int fd)
{
	return atomic_load_explicit(&n_markers, memory_order_relaxed) && fd >= 0 &&
	       fd < DESCRIPTORS &&
	       atomic_load_explicit(&marker[fd / 8], memory_order_relaxed) & 1u << fd % 8;
}

/* @fd as it is. */
static int note(int fd, bool is)
{
	unsigned char bit = (unsigned char)(1u << fd % 8);

	if (fd < 0 || fd >= DESCRIPTORS || is_marker(fd) == is)
		return fd;
	if (is)
		(void)atomic_fetch_or(&marker[fd / 8], bit);
	else
		(void)atomic_fetch_and(&marker[fd / 8], (unsigned char)~bit);
	(void)atomic_fetch_add(&n_markers, is ? 1 : -1);
	return fd;
}

/* trace_marker of any instance, in both places where tracefs is mounted. */
static bool names_marker(const char *path)
{
	static const char first[] = "/sys/kernel/", last[] = "/trace_marker";
	size_t len;

	if (!path || strncmp(path, first, sizeof(first) - 1))
		return false;
	len = strlen(path);
	return len > sizeof(first) + sizeof(last) && !strcmp(path + len - (sizeof(last) - 1), last);
}

/* Is text wanted now, or to be wanted later? */
static bool answers(void)
{
	const char *value;

	if (marks_recorded() && marks_wanted(MARKS_TEXT))
		return true;
	value = getenv(MARKS_ENV_ANSWER);
	return value && !strcmp(value, "1");
}

static bool takes_all(void)
{
	return marks_head->flags & MARKS_TAKE_ALL && marks_recorded();
}

/* What an open of trace_marker returns, which returned @fd so far. */
static int answer(int fd, int flags)
{
	open_function *real = REAL(REAL_OPEN, open_function *);
	int was = errno, null;

	if (fd >= 0 || (flags & O_ACCMODE) == O_RDONLY || !real || !answers())
		return note(fd, false);
	null = real("/dev/null", O_WRONLY | (flags & (O_CLOEXEC | O_NONBLOCK)));
	if (null < 0 || null >= DESCRIPTORS) {
		if (null >= 0)
			(void)REAL(REAL_CLOSE, int (*)(int))(null);
		errno = was;
		return -1;
	}
	return note(null, true);
}

static int open_any(enum real which, int at, const char *path, int flags, mode_t mode)
{
	bool named = names_marker(path), in = which == REAL_OPENAT || which == REAL_OPENAT64;
	int fd = -1;

	if (!find(which))
		return -1;
	if (named && takes_all() && (flags & O_ACCMODE) != O_RDONLY)
		errno = ENOENT;
	else if (in)
		fd = REAL(which, openat_function *)(at, path, flags, mode);
	else
		fd = REAL(which, open_function *)(path, flags, mode);
	return named ? answer(fd, flags) : note(fd, false);
}

/* O_TMPFILE has bits of its own. */
#define MODE_OF(flags)                                                     \
	__extension__({                                                    \
		mode_t mode_ = 0;                                          \
		if ((flags)&O_CREAT || ((flags)&O_TMPFILE) == O_TMPFILE) { \
			va_list list_;                                     \
			va_start(list_, flags);                            \
			mode_ = va_arg(list_, mode_t);                     \
			va_end(list_);                                     \
		}                                                          \
		mode_;                                                     \
	})

EXPORTED int open(const char *path, int flags, ...)
{
	return open_any(REAL_OPEN, 0, path, flags, MODE_OF(flags));
}

EXPORTED int open64(const char *path, int flags, ...)
{
	return open_any(REAL_OPEN64, 0, path, flags, MODE_OF(flags));
}

EXPORTED int openat(int at, const char *path, int flags, ...)
{
	return open_any(REAL_OPENAT, at, path, flags, MODE_OF(flags));
}

EXPORTED int openat64(int at, const char *path, int flags, ...)
{
	return open_any(REAL_OPENAT64, at, path, flags, MODE_OF(flags));
}

/* -D_FORTIFY_SOURCE: without a mode. */
static int open_checked(enum real which, enum real plain, int at, const char *path, int flags)
{
	if (names_marker(path))
		return open_any(plain, at, path, flags, 0);
	if (!find(which))
		return -1;
	return note(which == REAL_OPENAT_2 || which == REAL_OPENAT64_2
			    ? REAL(which, int (*)(int, const char *, int))(at, path, flags)
			    : REAL(which, int (*)(const char *, int))(path, flags),
		    false);
}

EXPORTED int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags)
{
	return open_checked(REAL_OPEN_2, REAL_OPEN, 0, path, flags);
}

EXPORTED int __open64_2(const char *path, int flags);
int __open64_2(const char *path, int flags)
{
	return open_checked(REAL_OPEN64_2, REAL_OPEN64, 0, path, flags);
}

EXPORTED int __openat_2(int at, const char *path, int flags);
int __openat_2(int at, const char *path, int flags)
{
	return open_checked(REAL_OPENAT_2, REAL_OPENAT, at, path, flags);
}

EXPORTED int __openat64_2(int at, const char *path, int flags);
int __openat64_2(int at, const char *path, int flags)
{
	return open_checked(REAL_OPENAT64_2, REAL_OPENAT64, at, path, flags);
}

EXPORTED int creat(const char *path, mode_t mode)
{
	return open_any(REAL_OPEN, 0, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

EXPORTED int creat64(const char *path, mode_t mode)
{
	return open_any(REAL_OPEN64, 0, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

EXPORTED int close(int fd)
{
	int (*real)(int) = REAL(REAL_CLOSE, int (*)(int));

	(void)note(fd, false);
	return real ? real(fd) : -1;
}

EXPORTED int close_range(unsigned first, unsigned last, int flags);
int close_range(unsigned first, unsigned last, int flags)
{
	int (*real)(unsigned, unsigned, int) =
		REAL(REAL_CLOSE_RANGE, int (*)(unsigned, unsigned, int));
	int r = real ? real(first, last, flags) : -1;

	if (r == 0 && !flags)
		for (unsigned fd = first; fd <= last && fd < DESCRIPTORS; fd++)
			(void)note((int)fd, false);
	return r;
}

EXPORTED void closefrom(int first);
void closefrom(int first)
{
	void (*real)(int) = REAL(REAL_CLOSEFROM, void (*)(int));

	for (int fd = first < 0 ? 0 : first; fd < DESCRIPTORS; fd++)
		(void)note(fd, false);
	if (real)
		real(first);
}

EXPORTED int dup(int fd)
{
	int (*real)(int) = REAL(REAL_DUP, int (*)(int));

	return real ? note(real(fd), is_marker(fd)) : -1;
}

EXPORTED int dup2(int fd, int to)
{
	int (*real)(int, int) = REAL(REAL_DUP2, int (*)(int, int));

	return real ? note(real(fd, to), is_marker(fd)) : -1;
}

EXPORTED int dup3(int fd, int to, int flags)
{
	int (*real)(int, int, int) = REAL(REAL_DUP3, int (*)(int, int, int));

	return real ? note(real(fd, to, flags), is_marker(fd)) : -1;
}

static int control(enum real which, int fd, int command, void *arg)
{
	int (*real)(int, int, ...) = REAL(which, int (*)(int, int, ...));
	int r = real ? real(fd, command, arg) : -1;

	if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
		(void)note(r, is_marker(fd));
	return r;
}

#define ARGUMENT_BEHIND(last)                 \
	__extension__({                       \
		va_list list_;                \
		void *arg_;                   \
		va_start(list_, last);        \
		arg_ = va_arg(list_, void *); \
		va_end(list_);                \
		arg_;                         \
	})

EXPORTED int fcntl(int fd, int command, ...)
{
	return control(REAL_FCNTL, fd, command, ARGUMENT_BEHIND(command));
}

EXPORTED int fcntl64(int fd, int command, ...)
{
	return control(REAL_FCNTL64, fd, command, ARGUMENT_BEHIND(command));
}

/* ---- what is written ---- */

/* Puts each line.  false: none is wanted now, or one has not the form of a mark, so that the file gets it too. */
static bool take(const char *text, size_t len)
{
	bool all = true;

	marks_follow();
	if (!len || !marks_wanted(MARKS_TEXT))
		return false;
	while (len) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len;

		if (n) {
			all &= memchr("BECSFINGH", *text, 9) && (n == 1 || text[1] == '|');
			marks_put(MARKS_LINE, text, n, 0, 0);
		}
		n += end != NULL;
		text += n;
		len -= n;
	}
	return all;
}

EXPORTED ssize_t write(int fd, const void *data, size_t len)
{
	ssize_t (*real)(int, const void *, size_t);

	if (is_marker(fd) && take(data, len))
		return (ssize_t)len;
	real = REAL(REAL_WRITE, ssize_t(*)(int, const void *, size_t));
	return real ? real(fd, data, len) : -1;
}

EXPORTED ssize_t __write(int fd, const void *data, size_t len);
ssize_t __write(int fd, const void *data, size_t len)
{
	return write(fd, data, len);
}

EXPORTED ssize_t writev(int fd, const struct iovec *parts, int n)
{
	ssize_t (*real)(int, const struct iovec *, int) =
		REAL(REAL_WRITEV, ssize_t(*)(int, const struct iovec *, int));
	char text[MARKS_NAME_MAX];
	size_t len = 0, whole = 0;

	if (!is_marker(fd) || n < 0 || n > IOV_MAX)
		return real ? real(fd, parts, n) : -1;
	for (int i = 0; i < n; i++) {
		size_t room = sizeof(text) - len;
		size_t some = parts[i].iov_len < room ? parts[i].iov_len : room;

		memcpy(text + len, parts[i].iov_base, some);
		len += some;
		whole += parts[i].iov_len;
	}
	if (take(text, len))
		return (ssize_t)whole;
	return real ? real(fd, parts, n) : -1;
}

/* printf() to a descriptor of ours; @text is what would be written. */
static int print(int fd, const char *format, va_list list)
{
	char text[MARKS_NAME_MAX];
	int len = vsnprintf(text, sizeof(text), format, list);
	size_t kept = len < (int)sizeof(text) ? (size_t)len : sizeof(text) - 1;

	return len <= 0 ? len : write(fd, text, kept) < 0 ? -1 : len;
}

EXPORTED int vdprintf(int fd, const char *restrict format, va_list list)
{
	int (*real)(int, const char *, va_list);

	if (is_marker(fd))
		return print(fd, format, list);
	real = REAL(REAL_VDPRINTF, int (*)(int, const char *, va_list));
	return real ? real(fd, format, list) : -1;
}

EXPORTED int dprintf(int fd, const char *restrict format, ...)
{
	va_list list;
	int r;

	va_start(list, format);
	r = vdprintf(fd, format, list);
	va_end(list);
	return r;
}

EXPORTED int __vdprintf_chk(int fd, int flag, const char *restrict format, va_list list);
int __vdprintf_chk(int fd, int flag, const char *restrict format, va_list list)
{
	int (*real)(int, int, const char *, va_list);

	if (is_marker(fd))
		return print(fd, format, list);
	real = REAL(REAL_VDPRINTF_CHK, int (*)(int, int, const char *, va_list));
	return real ? real(fd, flag, format, list) : -1;
}

EXPORTED int __dprintf_chk(int fd, int flag, const char *restrict format, ...);
int __dprintf_chk(int fd, int flag, const char *restrict format, ...)
{
	va_list list;
	int r;

	va_start(list, format);
	r = __vdprintf_chk(fd, flag, format, list);
	va_end(list);
	return r;
}

/* ---- streams ---- */

static void forget_file(int fd)
{
	for (int i = 0; i < FILES; i++) {
		if (!atomic_load(&files[i].file) || files[i].fd != fd)
			continue;
		files[i].fd = -1;
		atomic_store(&files[i].file, NULL);
		(void)atomic_fetch_sub(&n_files, 1);
	}
}

static ssize_t stream_write(void *cookie, const char *data, size_t len)
{
	return write((int)(intptr_t)cookie, data, len);
}

static int stream_close(void *cookie)
{
	forget_file((int)(intptr_t)cookie);
	return close((int)(intptr_t)cookie);
}

/* A stream that writes to @fd, which is one of ours.  NULL: errno; @fd is open as before. */
static FILE *new_stream(int fd, const char *mode)
{
	static const cookie_io_functions_t calls = {.write = stream_write, .close = stream_close};
	FILE *file;

	if (!fopencookie) {
		errno = ENOSYS;
		return NULL;
	}
	file = fopencookie((void *)(intptr_t)fd, mode, calls);
	for (int i = 0; file && i < FILES; i++) {
		FILE *none = NULL;

		if (!atomic_compare_exchange_strong(&files[i].file, &none, file))
			continue;
		files[i].fd = fd;
		(void)atomic_fetch_add(&n_files, 1);
		break;
	}
	return file;
}

/* fopen()'s letters as flags of open(). */
static int flags_of(const char *mode)
{
	int flags = strchr(mode, '+') ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;

	return flags | (strchr(mode, 'e') ? O_CLOEXEC : 0);
}

static FILE *open_stream(enum real which, const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) =
		REAL(which, FILE * (*)(const char *, const char *));
	FILE *file = NULL;
	int fd;

	if (!real)
		return NULL;
	if (!names_marker(path) || !mode) {
		file = real(path, mode);
		if (file && atomic_load_explicit(&n_markers, memory_order_relaxed))
			(void)note(fileno(file), false);
		return file;
	}
	errno = ENOENT;
	if (!takes_all() || flags_of(mode) == O_RDONLY)
		file = real(path, mode);
	if (file)
		return file;
	fd = answer(-1, flags_of(mode));
	if (fd < 0)
		return NULL;
	file = new_stream(fd, mode);
	if (!file)
		(void)close(fd);
	return file;
}

EXPORTED FILE *fopen(const char *restrict path, const char *restrict mode)
{
	return open_stream(REAL_FOPEN, path, mode);
}

EXPORTED FILE *fopen64(const char *restrict path, const char *restrict mode)
{
	return open_stream(REAL_FOPEN64, path, mode);
}

EXPORTED FILE *fdopen(int fd, const char *mode)
{
	FILE *(*real)(int, const char *);

	if (is_marker(fd))
		return new_stream(fd, mode);
	real = REAL(REAL_FDOPEN, FILE * (*)(int, const char *));
	return real ? real(fd, mode) : NULL;
}

static int number_of(enum real which, FILE *file)
{
	int (*real)(FILE *);

	if (atomic_load_explicit(&n_files, memory_order_relaxed))
		for (int i = 0; i < FILES; i++)
			if (atomic_load(&files[i].file) == file && file)
				return files[i].fd;
	real = REAL(which, int (*)(FILE *));
	return real ? real(file) : -1;
}

EXPORTED int fileno(FILE *file)
{
	return number_of(REAL_FILENO, file);
}

EXPORTED int fileno_unlocked(FILE *file)
{
	return number_of(REAL_FILENO_UNLOCKED, file);
}
