/* perfwind-marks.h - marks in C and C++ programs: slices, counters and instants in a recording of `perfwind record --marks`,
 * next to the program's samples.  One header and no library to link: libperfwind-marks.so is loaded by the recording's
 * LD_PRELOAD, or linked, or absent.
 *
 *	#include <perfwind-marks.h>
 *
 *	void draw(void)
 *	{
 *		PERFWIND_SCOPE(PERFWIND_DEFAULT, "draw");                 // until the end of the block; C and C++
 *		perfwind_counter(PERFWIND_DEFAULT, "queue", n);
 *	}
 *
 * Categories are bits 0 to 61, chosen by the program; the recording switches each on and off (--mark-categories).  A mark of
 * a category that is off costs a load and a branch.  Marks may be made in any thread and in signal handlers.  Names are
 * copied; 1,024 bytes are kept.
 *
 * -DPERFWIND_MARKS_OFF removes all marks.  Programs linked with -static have none. */
#pragma once

#include <stdint.h>
#include <string.h>

#define PERFWIND_CATEGORY(bit) (1ull << (bit))
#define PERFWIND_DEFAULT PERFWIND_CATEGORY(0)

#ifdef __cplusplus
extern "C" {
#endif

struct perfwind_marks_calls {
	uint32_t version;
	void (*put)(int kind, uint64_t category, const char *name, size_t len, int64_t value);
	void (*add_page)(void *page);
	void (*remove_page)(void *page);
};

#ifdef __x86_64__
#define PERFWIND_PAGE_ 4096
#else
#define PERFWIND_PAGE_ 65536
#endif

#ifndef PERFWIND_MARKS_OFF

/* The mask of categories.  libperfwind-marks.so maps its own page over this one, so a recording can switch marks in a program
 * that runs.  One for each program or shared object. */
__attribute__((weak, visibility("hidden"), aligned(PERFWIND_PAGE_))) union perfwind_marks_page {
	volatile uint64_t mask;
	char page[PERFWIND_PAGE_];
} perfwind_marks_page_;
__attribute__((weak, visibility("hidden")))
const struct perfwind_marks_calls *perfwind_marks_calls_;

extern void *dlsym(void *, const char *)
#if defined(__cplusplus) && defined(__GLIBC__)
	noexcept(true)
#endif
		__attribute__((weak));

__attribute__((constructor, unused)) static void perfwind_marks_find_(void)
{
	if (perfwind_marks_calls_ || !dlsym)
		return;
	/* NULL: as RTLD_DEFAULT, without <dlfcn.h> and its feature macros. */
	perfwind_marks_calls_ =
		(const struct perfwind_marks_calls *)dlsym((void *)0, "perfwind_marks_calls_1");
	if (perfwind_marks_calls_)
		perfwind_marks_calls_->add_page(&perfwind_marks_page_);
}

/* Of a shared object that is closed. */
__attribute__((destructor, unused)) static void perfwind_marks_forget_(void)
{
	if (perfwind_marks_calls_)
		perfwind_marks_calls_->remove_page(&perfwind_marks_page_);
	perfwind_marks_calls_ = (const struct perfwind_marks_calls *)0;
}

static inline int perfwind_enabled(uint64_t category)
{
	return __builtin_expect((perfwind_marks_page_.mask & category) != 0, 0) != 0;
}

__attribute__((noinline, cold, unused)) static void perfwind_put_(int kind, uint64_t category,
								  const char *name, int64_t value)
{
	const struct perfwind_marks_calls *calls = perfwind_marks_calls_;

	if (calls)
		calls->put(kind, category, name, name ? strlen(name) : 0, value);
}

#else
static inline int perfwind_enabled(uint64_t category)
{
	(void)category;
	return 0;
}
static inline void perfwind_put_(int kind, uint64_t category, const char *name, int64_t value)
{
	(void)kind;
	(void)category;
	(void)name;
	(void)value;
}
#endif

/* Begins a slice of this thread; perfwind_end() ends the latest one.  Give both the same category. */
static inline void perfwind_begin(uint64_t category, const char *name)
{
	if (perfwind_enabled(category))
		perfwind_put_(1, category, name, 0);
}

static inline void perfwind_end(uint64_t category)
{
	if (perfwind_enabled(category))
		perfwind_put_(2, category, (const char *)0, 0);
}

/* A moment without a length. */
static inline void perfwind_instant(uint64_t category, const char *name)
{
	if (perfwind_enabled(category))
		perfwind_put_(3, category, name, 0);
}

/* @name has @value from now on. */
static inline void perfwind_counter(uint64_t category, const char *name, int64_t value)
{
	if (perfwind_enabled(category))
		perfwind_put_(4, category, name, value);
}

/* A slice that may begin and end in different threads: the same name and cookie. */
static inline void perfwind_async_begin(uint64_t category, const char *name, int64_t cookie)
{
	if (perfwind_enabled(category))
		perfwind_put_(5, category, name, cookie);
}

static inline void perfwind_async_end(uint64_t category, const char *name, int64_t cookie)
{
	if (perfwind_enabled(category))
		perfwind_put_(6, category, name, cookie);
}

/* Ends a slice that was begun, also where its category was switched off meanwhile and on again. */
struct perfwind_scope_ {
	uint64_t category; /* 0: not begun */
};

static inline struct perfwind_scope_ perfwind_scope_begin_(uint64_t category, const char *name)
{
	struct perfwind_scope_ s;

	s.category = perfwind_enabled(category) ? category : 0;
	if (s.category)
		perfwind_put_(1, category, name, 0);
	return s;
}

static inline void perfwind_scope_end_(struct perfwind_scope_ *s)
{
	if (s->category)
		perfwind_end(s->category);
}

#ifdef __cplusplus
}
#endif

#define PERFWIND_JOIN2_(a, b) a##b
#define PERFWIND_JOIN_(a, b) PERFWIND_JOIN2_(a, b)
/* A slice until the end of the block, however it is left: in C by the cleanup attribute, in C++ also by an exception. */
#ifdef __cplusplus
namespace perfwind
{
class scope
{
      public:
	scope(uint64_t category, const char *name) : begun(perfwind_scope_begin_(category, name))
	{
	}
	~scope()
	{
		perfwind_scope_end_(&begun);
	}
	scope(const scope &) = delete;
	scope &operator=(const scope &) = delete;

      private:
	perfwind_scope_ begun;
};
} // namespace perfwind
#define PERFWIND_SCOPE(category, name) \
	::perfwind::scope PERFWIND_JOIN_(perfwind_scope_at_, __LINE__)((category), (name))
#else
#define PERFWIND_SCOPE(category, name)                                               \
	__attribute__((cleanup(perfwind_scope_end_), unused)) struct perfwind_scope_ \
	PERFWIND_JOIN_(perfwind_scope_at_, __LINE__) = perfwind_scope_begin_((category), (name))
#endif
