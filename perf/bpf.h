/* bpf.h - the BPF program that the kernel runs at each sample, and the memory through which it reports.
 * Thread: main.
 *
 *   at-sample.bpf.c, built in ─► bpf_program_new() ─► one program ─► PERF_EVENT_IOC_SET_BPF on each sampling event
 *                                     │ in the interrupt that takes the sample, before its record is published
 *                                     ├─► struct bpf_ring     records, read in place
 *                                     └◄─ struct bpf_memory   tables, written by main without a system call
 *
 * Programs and maps are made before privileges are dropped, or by a helper process (at-sample.h): main makes no bpf(2).
 * Linux 5.8 (ring buffers); root, or CAP_BPF and CAP_PERFMON.
 *
 * The kernel skips the program, and drops the sample, while another BPF program (kprobe, tracepoint)
 * or a change of a BPF map runs on the CPU (bpf_prog_active in kernel/events/core.c). */
#pragma once

#include <linux/bpf.h>
#include <stdatomic.h>

#include "base/util.h"

/* ---- the program ---- */

struct bpf_map_of {
	const char *name; /* in at-sample.bpf.c */
	int fd;		  /* of a bpf_ring or bpf_memory; -1: the program does not use it */
};

/* Loads @program of at-sample.bpf.c with its constant `settings` and its maps.  Returns its descriptor; the maps stay
 * alive with it.  < 0 with one line in @why: without permission, without BPF, or the verifier's last line. */
int bpf_program_new(const char *program, const void *settings, size_t settings_size,
		    const struct bpf_map_of *maps, size_t n_maps, char *why, size_t why_size);
/* A program that runs the program of place 0 of @array, if there is one.  Its descriptor, or -errno. */
int bpf_jump_new(int array);
/* An array with one place for a program, and puts one there.  The program stays as long as a process has the array. */
int bpf_array_new(void);
int bpf_array_put(int array, int program);
/* Is an empty program accepted, and a ring?  0 or -errno; about 0.1 ms. */
int bpf_try(void);

/* ---- tables ---- */

/* A map of one value that main and the program read and write.  Mapped, page-aligned. */
struct bpf_memory {
	int fd; /* of the map; -1: none */
	void *at;
	size_t mapped;
};
/* The descriptor of a new map for it, or -errno. */
int bpf_memory_map(size_t bytes);
/* Maps @fd, which it consumes, from bpf_memory_map(@bytes). */
int bpf_memory_open(int fd, size_t bytes, struct bpf_memory *ret_memory);
void bpf_memory_deinit(struct bpf_memory *memory);

/* ---- rings ---- */

/* Records of any CPU, in order of their reservation.  A record is memory of the ring until it is put. */
struct bpf_ring;
struct bpf_ring_record {
	const void *data; /* 8-aligned */
	size_t len;	  /* as reserved */
	uint64_t position;
};
/* The descriptor of a new map for a ring, or -errno.  @bytes: a power of two of pages; allocated at once. */
int bpf_ring_map(size_t bytes);
/* Maps @fd, which it consumes, from bpf_ring_map(@bytes). */
int bpf_ring_open(int fd, size_t bytes, struct bpf_ring **ret_ring);
struct bpf_ring *bpf_ring_free(struct bpf_ring *ring);
/* For instructions, and to poll: readable when the program asked for a wake-up. */
int bpf_ring_fd(const struct bpf_ring *ring);
enum { BPF_RING_EMPTY = 1 };
/* 0 and the next finished record; BPF_RING_EMPTY: there is none.  A record that is still being written
 * is passed over and returned by a later call, so records of one CPU stay in order.  -EBADMSG: the ring
 * is damaged; -ENOMEM. */
int bpf_ring_next(struct bpf_ring *ring, struct bpf_ring_record *ret_record);
/* Gives a record back, in any order; each once. */
void bpf_ring_put(struct bpf_ring *ring, uint64_t position);
/* Bytes that the program can still reserve. */
size_t bpf_ring_room(const struct bpf_ring *ring);
/* A ring over given memory, for tests: @consumer and @producer hold one position each, @data @size
 * bytes, mapped twice in a row.  Borrows all. */
int bpf_ring_of(_Atomic uint64_t *consumer, const _Atomic uint64_t *producer, const uint8_t *data,
		size_t size, struct bpf_ring **ret_ring);
