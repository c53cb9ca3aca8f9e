/* fail-malloc.h - makes the n-th allocation of a test program fail.  Included by its one .c
 * file. Libraries allocate by the same functions.  The sanitizers have an allocator of their own:
 * there FAIL_MALLOC is 0, and the program has nothing to test.  One thread; fail-calls.h has a rule of its own, and threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FAIL_MALLOC 0
#else
#define FAIL_MALLOC 1

/* glibc's own names for what stands behind malloc. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);
void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void *realloc(void *old, size_t size);
void *reallocarray(void *old, size_t n, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
void free(void *p);

static _Atomic long malloc_held; /* blocks, of all threads */

/* MALLOC_RULE: a function like malloc_fails(), defined before this file is included. */
#ifdef MALLOC_RULE
#define malloc_fails MALLOC_RULE
#else
static unsigned long malloc_calls;
static unsigned long malloc_fail_at; /* 0: none */
static bool malloc_fail_on;	     /* and all after it */
static bool malloc_fail_own;	     /* only what the program itself allocates, not its libraries */
static _Atomic unsigned long
	*malloc_shared; /* calls of this process and its children; NULL: not counted */

extern const char __executable_start[], etext[]; /* the linker's: the program's text lies between */

/* Does the allocation fail that the code at @caller makes? */
static bool malloc_fails(const void *caller)
{
	if (malloc_fail_own &&
	    ((const char *)caller < __executable_start || (const char *)caller >= etext))
		return false;
	malloc_calls++;
	if (malloc_shared)
		(*malloc_shared)++;
	return malloc_fail_at &&
	       (malloc_fail_on ? malloc_calls >= malloc_fail_at : malloc_calls == malloc_fail_at);
}

/* From here on the @n-th fails (0: none), with @on all after it too. */
static void malloc_fail(unsigned long n, bool on)
{
	malloc_calls = 0;
	malloc_fail_on = on;
	malloc_fail_at = n;
}
#endif

static void *malloc_hold(void *p)
{
	malloc_held += p != NULL;
	return p;
}

void *malloc(size_t size)
{
	return malloc_fails(__builtin_return_address(0)) ? NULL : malloc_hold(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
	return malloc_fails(__builtin_return_address(0)) ? NULL
							 : malloc_hold(__libc_calloc(n, size));
}

void *realloc(void *old, size_t size)
{
	void *p = malloc_fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size);

	malloc_held += p && !old;
	return p;
}

void *reallocarray(void *old, size_t n, size_t size)
{
	void *p;

	if ((size && n > SIZE_MAX / size) || malloc_fails(__builtin_return_address(0)))
		return NULL;
	p = __libc_realloc(old, n * size);
	malloc_held += p && !old;
	return p;
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return malloc_fails(__builtin_return_address(0))
		       ? NULL
		       : malloc_hold(__libc_memalign(alignment, size));
}

void free(void *p)
{
	malloc_held -= p != NULL;
	__libc_free(p);
}
#endif
