/* attr.h - perf_event_attr of each event that a session opens.  Thread: main.
 * perf_event_open(2).  All of one session carry the same clock, or they could not share a ring. */
#pragma once

#include "perf/source.h"

/* The sampling event with a copy of @stack_bytes of the user stack. */
void attr_leader(const struct perf_options *options, uint32_t stack_bytes,
		 struct perf_event_attr *ret_attr);
/* Counts in the leader's group; never samples. */
void attr_follower(const struct perf_options *options, size_t index,
		   struct perf_event_attr *ret_attr);
/* The dummy event that carries MMAP2, COMM, FORK, EXIT (KSYMBOL, and switches where options->switches). */
void attr_sideband(const struct perf_options *options, struct perf_event_attr *ret_attr);
/* Samples each @period-th switch of a task out of its CPU, in the form of the leader's samples.  Its
 * weight is not known yet (session/pipeline/waits.h). */
void attr_switch(const struct perf_options *options, uint64_t period,
		 struct perf_event_attr *ret_attr);
/* The tracepoint options->waking: a sample of each wake-up, on the waker's CPU.  The samples have their fields (RAW) and lie in the sideband ring. */
void attr_waking(const struct perf_options *options, struct perf_event_attr *ret_attr);
/* The same tracepoint with the stack of the task that wakes.  Its samples lie in the leader's ring, in the form of the
 * leader's. */
void attr_waker(const struct perf_options *options, struct perf_event_attr *ret_attr);
/* A timer of the task's CPU time that wakes the reader; its records lie in the sideband ring (source-count.c). */
void attr_watch(const struct perf_options *options, struct perf_event_attr *ret_attr);
/* A disabled event that only owns a ring, see source.c.  @watermark: bytes before a wake-up.
 */
void attr_anchor(const struct perf_options *options, uint32_t watermark,
		 struct perf_event_attr *ret_attr);
/* Counts a task's CPU time, and that of what it starts. */
void attr_task_clock(const struct perf_options *options, struct perf_event_attr *ret_attr);

/* Counts alone: value, time enabled and time running in a read.  The caller sets what depends on the target. */
void attr_counter(const struct perf_spec *spec, struct perf_event_attr *ret_attr);

/* FRAMES_*: where the event counts. */
unsigned attr_code(const struct perf_event_attr *attr);

void attr_layout(const struct perf_event_attr *attr, struct record_layout *ret_layout);
