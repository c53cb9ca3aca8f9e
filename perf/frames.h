/* frames.h - user and kernel code as one set, from a command or a config to the bits of perf_event_attr (attr.c).
 * `frames`: the frames that a stack has.  `code`: where an event counts and a session samples.  Thread: any. */
#pragma once

/* FRAMES_HYPERVISOR: of `code` only, and of some machines.  Bit N is modifier N + 1 of protos/perf_config.proto. */
enum {
	FRAMES_USER = 1,
	FRAMES_KERNEL = 2,
	FRAMES_HYPERVISOR = 4,
	FRAMES_ALL = FRAMES_USER | FRAMES_KERNEL | FRAMES_HYPERVISOR
};
