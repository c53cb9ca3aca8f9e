/* util.h - small things that every file uses.  Thread: any.
 * Cleanup attributes, hand-over by take(), arithmetic that cannot surprise, numbers from text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define _cleanup_(fn) __attribute__((cleanup(fn)))
#define _printf_(a, b) __attribute__((format(printf, a, b)))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Twice the room for an array, @first at first: array_grow(list->items, list->room, 8).  false: no memory, and nothing
 * has changed. */
#define array_grow(array, room, first)                                                    \
	__extension__({                                                                   \
		__typeof__(room) room_ = (room) ? (room)*2 : (first);                     \
		__typeof__(array) more_ = reallocarray((array), room_, sizeof(*(array))); \
                                                                                          \
		if (more_) {                                                              \
			(array) = more_;                                                  \
			(room) = room_;                                                   \
		}                                                                         \
		more_ != NULL;                                                            \
	})

/* Of two numbers, as a comparison of qsort() returns it: ascend(x->time, y->time) ?: ascend(x->order, y->order). */
#define ascend(a, b)                    \
	__extension__({                 \
		__typeof__(a) a_ = (a); \
		__typeof__(b) b_ = (b); \
                                        \
		(a_ > b_) - (a_ < b_);  \
	})

/* Bisection: of the indices @i below @n, how many are @before a place; @before holds for none behind one for which it does
 * not hold: bisect(i, list->n, list->items[i].start <= address). */
#define bisect(i, n, before)                                  \
	__extension__({                                       \
		size_t low_ = 0, high_ = (n);                 \
                                                              \
		while (low_ < high_) {                        \
			size_t i = low_ + (high_ - low_) / 2; \
                                                              \
			if (before)                           \
				low_ = i + 1;                 \
			else                                  \
				high_ = i;                    \
		}                                             \
		low_;                                         \
	})

/* Takes the value out of a local that has a cleanup attribute: the caller owns it from here. */
#define take(var)                               \
	__extension__({                         \
		__typeof__(var) taken_ = (var); \
		(var) = 0;                      \
		taken_;                         \
	})
/* The same for a descriptor. */
#define take_fd(var)                \
	__extension__({             \
		int taken_ = (var); \
		(var) = -1;         \
		taken_;             \
	})

#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline bool is_power_of_two(uint64_t x)
{
	return x && !(x & (x - 1));
}

/* Smallest power of two that is >= @x; @x must be at least 1 and at most 2^63. */
static inline uint64_t round_up_power_of_two(uint64_t x)
{
	return x <= 1 ? 1 : 1ull << (64 - __builtin_clzll(x - 1));
}

/* A mixer for hash tables (splitmix64's finaliser). */
static inline uint64_t hash_u64(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static inline void freep(void *p)
{
	free(*(void **)p);
}

/* close() that keeps errno; fine with -1. */
int fd_close(int fd);

static inline void fd_closep(int *fd)
{
	*fd = fd_close(*fd);
}

static inline void file_closep(FILE **f)
{
	if (*f)
		fclose(*f);
}

/* Opens @path for writing, made if need be with mode 0600: what is written has names and paths of programs.  @flags: O_TRUNC or
 * O_EXCL.  NULL and errno. */
FILE *file_create(const char *path, int flags);

/* Raises the limit of RLIMIT_* to its hard limit, if possible. */
void use_hard_limit(int resource);
/* Sorts ascending and removes duplicates; returns the new length. */
size_t sort_unique_u32(uint32_t *list, size_t n);
/* One @n-th of the descriptors that we may open, at least 1. */
size_t share_of_files(size_t n);

/* CLOCK_* now, in nanoseconds. */
uint64_t clock_ns(int clock);

/* A whole string as a number, @base as for strtoull (0: 0x, 0, decimal).  -EINVAL when anything
 * else than digits stands there (signs and blanks too), -ERANGE when it is over @max. */
int parse_u64(const char *text, int base, uint64_t max, uint64_t *ret_value);

/* Reads a whole small file (/proc, /sys, /etc), at most @max bytes, with a NUL behind.  Returns new
 * memory. -EFBIG when there is more. */
int read_file(const char *path, size_t max, char **ret_text, size_t *ret_len);
/* The same of an open descriptor, from its current position. */
int read_fd(int fd, size_t max, char **ret_text, size_t *ret_len);
/* Reads @len bytes at @offset of a file; fewer only at its end.  The number of bytes, or -errno. */
ssize_t read_fd_at(int fd, void *to, size_t len, uint64_t offset);
/* Writes all of @len or fails with -errno. */
int write_all(int fd, const void *data, size_t len);
