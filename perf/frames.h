/* frames.h - which frames of a stack: a set, under one name from a config (session_options.frames) to
 * the bits of perf_event_attr (attr.c).  Frames are left out by it, not samples.  Thread: any. */
#pragma once

enum { FRAMES_USER = 1, FRAMES_KERNEL = 2, FRAMES_ALL = FRAMES_USER | FRAMES_KERNEL };
