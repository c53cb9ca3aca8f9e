/* native-calls.h - an engine is made and unwinds a sample, while each allocation and system call of that fails once: an error,
 * or the frames that a run without failures has; and then the same engine has these frames. */
#pragma once

#include "tests/unit/fail-calls.h"

#include "tests/unit/unwinder/native-fixture.h"

struct native_calls {
	struct fixture *f;
	uint64_t pc;
	enum uw_engine_kind kind;
	uint64_t frames[FRAMES]; /* the first run's; n 0: not known yet */
	uint32_t n;
};

static int native_calls_run(struct native_calls *c, struct uw_engine *engine)
{
	struct fixture *f = c->f;
	int r;

	f->regs[UW_X86_IP] = c->pc;
	f->res = (struct uw_result){.frames = f->frames, .max_frames = FRAMES};
	r = uw_unwind_batch(engine, &f->snapshot, 1, &f->res);
	if (r < 0)
		return r;
	if (f->res.outcome != UW_WHOLE)
		fail_msg("%s, call %lu: %s, %s", uw_engine_name(c->kind), calls_made,
			 uw_outcome_name(f->res.outcome), uw_reason_name(f->res.reason));
	if (!c->n)
		memcpy(c->frames, f->frames, sizeof(c->frames));
	c->n = c->n ? c->n : f->res.n_frames;
	assert_int_equal(f->res.n_frames, c->n);
	assert_memory_equal(f->frames, c->frames, c->n * sizeof(*c->frames));
	return 0;
}

static int native_calls_make(void *arg)
{
	struct native_calls *c = arg;
	struct uw_engine *engine;
	int r = uw_engine_new(c->kind, &engine);
	unsigned long at;

	if (r < 0)
		return r;
	r = native_calls_run(c, engine);
	assert_true(r == 0 || r == -ENOMEM);
	at = calls_fail_at;
	calls_fail_at = 0;
	assert_int_equal(native_calls_run(c, engine), 0);
	calls_fail_at = at;
	(void)uw_engine_free(engine);
	return r;
}

static void native_calls_end(void *arg)
{
	(void)arg;
}

/* The frames are in c->frames then. */
static void native_calls_sweep(const char *name, struct native_calls *c)
{
	calls_sweep(&(struct calls_made){name, native_calls_make, native_calls_end, c});
}
