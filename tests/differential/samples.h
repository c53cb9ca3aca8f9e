/* samples.h - live samples of a command for tests of the unwinder: registers, stack, address space.
 *
 *   take    runs the command under perf events (all its children too) and keeps every record in one
 *           area, as struct sample_event; the area can be written to a file and read back (--save,
 *           --load)
 *   recorded  makes the same events from a recording of perf record
 *   replay  sorts them by time, follows each process's mappings, loads the modules, and gives
 *           snapshots
 *
 * Modules are loaded before the first stack, so no stack waits for one.  Thread: any, one. */
#pragma once

#include "base/bytes.h"
#include "symbols/module.h"
#include "unwinder/unwinder.h"

struct samples_options {
	char **command;	      /* or */
	const char *load;     /* a file of samples_save(), or of perf record */
	uint64_t frequency;   /* Hz of CPU time */
	uint32_t stack_bytes; /* of one copy, a multiple of 8 */
	uint64_t max_bytes;   /* of all records; later samples are dropped */
	uint64_t max_samples;
	bool user_only; /* else also samples taken in the kernel: user registers at the system call
			 */
	bool quiet;	/* the command's output goes to /dev/null */
};

struct sample {
	struct uw_snapshot snapshot;
	uint32_t pid, tid;
	uint64_t time;
	bool kernel; /* taken in kernel mode */
	const uint64_t
		*truth; /* shadow.c: the true return addresses, innermost first; NULL: not known */
	uint32_t n_truth;
};

struct samples {
	struct sample *list;
	size_t n;
	uint64_t lost, stack_bytes, n_no_user; /* n_no_user: not in the list, no user part */
	uint64_t n_taken;		       /* out of a recording, in the list or not */
	int exit_status;		       /* the command's, as wait(2) gives it */
	size_t n_modules, n_modules_unreadable;
	struct samples_area *area;
	struct samples_replay *replay;
};

/* < 0, after a line on standard error. */
int samples_new(const struct samples_options *options, struct samples **ret_samples);
struct samples *samples_free(struct samples *samples);
static inline void samples_freep(struct samples **samples)
{
	samples_free(*samples);
}
int samples_save(const struct samples *samples, const char *path);

/* "module+0xvaddr symbol" of a frame of @sample, into @to.  Loads symbols when first asked. */
void samples_describe(struct samples *samples, const struct sample *sample, uint64_t frame,
		      char *to, size_t size);
/* The symbol alone, demangled; "" where none is known. */
void samples_symbol(struct samples *samples, const struct sample *sample, uint64_t frame, char *to,
		    size_t size);

/* ---- between take and replay ---- */
enum sample_event_type { SAMPLE_STACK = 1, SAMPLE_MAP, SAMPLE_EXEC, SAMPLE_FORK, SAMPLE_TRUTH };
#define SAMPLES_MAGIC \
	0x316c706d61737770ull /* "pwsampl1": of a file, before the area's length and the area */

struct sample_event {
	uint32_t size; /* of all, a multiple of 8 */
	uint16_t type;
	uint16_t flags; /* STACK: 1 full, 2 kernel mode */
	uint32_t pid, tid;
	uint64_t time;
	union {
		struct {
			uint32_t len, n_regs; /* n_regs 0: no user state */
			uint64_t regs[UW_X86_COUNT];
			/* the stack's bytes */
		} stack;
		struct {
			uint64_t start, end, offset;
			struct uw_build_id id;
			/* the path with its NUL */
		} map;
		uint32_t parent; /* FORK: pid is the child */
		struct {
			uint32_t n;
			/* n addresses */
		} truth; /* of the stack before it */
	};
	uint8_t data[];
};

struct samples_area {
	uint8_t *base;
	size_t used, room;
};
/* Room for an event with @len bytes behind it; NULL when the area is full. */
struct sample_event *samples_area_add(struct samples_area *area, size_t len);

/* take.c */
int samples_take(const struct samples_options *options, struct samples *samples);
/* recorded.c: options->load is a perf.data. */
int samples_recorded(const struct samples_options *options, struct samples *samples);
/* replay.c */
int samples_replay(struct samples *samples);
void samples_replay_free(struct samples_replay *replay);
