/* count-malloc.h - how often a test program allocates.  Included by one .c file of a program.
 * The sanitizers have an allocator of their own: there COUNT_MALLOC is 0 and nothing is counted. */
#pragma once

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNT_MALLOC 0
#else
#define COUNT_MALLOC 1

static size_t malloc_count;

/* glibc's own names for what stands behind malloc. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void *realloc(void *old, size_t size);

void *malloc(size_t size)
{
	malloc_count++;
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	malloc_count++;
	return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
	malloc_count++;
	return __libc_realloc(old, size);
}
#endif
