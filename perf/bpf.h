/* bpf.h - a BPF program that the kernel runs at each sample, and the memory through which it reports.
 * Thread: main.
 *
 *   parts ─► bpf_program_new() ─► one program ─► PERF_EVENT_IOC_SET_BPF on each sampling event
 *                                     │ in the interrupt that takes the sample, before its record is published
 *                                     ├─► struct bpf_ring    records, read in place
 *                                     └◄─ struct bpf_words   settings, written by main without a system call
 *
 * An event takes one program, so each user writes a part of it.  Everything is made before privileges
 * are dropped: bpf(2) is on no list of system calls, and none is needed afterwards.  Linux 5.8 (ring
 * buffers); root, or CAP_BPF and CAP_PERFMON.
 *
 * The kernel skips the program, and drops the sample, while another BPF program (kprobe, tracepoint)
 * or a change of a BPF map runs on the CPU (bpf_prog_active in kernel/events/core.c). */
#pragma once

#include <linux/bpf.h>
#include <stdatomic.h>

#include "base/util.h"

/* ---- instructions ---- */

enum { BPF_CODE_MAX = 2048, BPF_LABEL_MAX = 128, BPF_BODIES_MAX = 4 };

/* A program being written.  Emitting past the end sets @overflow, which bpf_program_new() refuses. */
struct bpf_code {
	struct bpf_insn insns[BPF_CODE_MAX];
	size_t n;
	uint16_t label_of[BPF_CODE_MAX]; /* of a jump: its label plus one; 0: none */
	uint16_t place[BPF_LABEL_MAX];	 /* of a label: its instruction plus one; 0: not placed */
	size_t n_labels;
	/* Of loops: written behind the program, as functions of their own. */
	struct bpf_body {
		void (*emit)(struct bpf_code *code, const void *arg);
		const void *arg;
		uint16_t at, start; /* instructions: that names it, its first */
	} bodies[BPF_BODIES_MAX];
	size_t n_bodies;
	bool overflow;
};

/* Helpers by their numbers (enum bpf_func_id): headers may be older than the kernel. */
enum bpf_helper {
	BPF_CALL_MAP_LOOKUP = 1,
	BPF_CALL_KTIME_NS = 5, /* CLOCK_MONOTONIC */
	BPF_CALL_CPU = 8,
	BPF_CALL_PID_TGID = 14, /* tgid << 32 | tid */
	BPF_CALL_READ_USER = 112,
	BPF_CALL_READ_KERNEL = 113,
	BPF_CALL_KTIME_BOOT_NS = 125, /* CLOCK_BOOTTIME, 5.8 */
	BPF_CALL_RING_RESERVE = 131,
	BPF_CALL_RING_SUBMIT = 132,
	BPF_CALL_RING_DISCARD = 133,
	BPF_CALL_RING_QUERY = 134,
	BPF_CALL_TASK_BTF = 158,  /* 5.11 */
	BPF_CALL_TASK_REGS = 175, /* 5.15 */
	BPF_CALL_LOOP = 181	  /* 5.17 */
};

void bpf_emit(struct bpf_code *code, struct bpf_insn insn);
/* dst = src, dst = imm (sign-extended), dst = imm of 64 bits. */
void bpf_move(struct bpf_code *code, int dst, int src);
void bpf_set(struct bpf_code *code, int dst, int32_t imm);
void bpf_set64(struct bpf_code *code, int dst, uint64_t imm);
/* dst = the map of descriptor @fd: an argument of helpers. */
void bpf_map(struct bpf_code *code, int dst, int fd);
/* dst = dst OP imm | src, 64 bits; @op: BPF_ADD, BPF_AND, BPF_RSH ... */
void bpf_math(struct bpf_code *code, int op, int dst, int32_t imm);
void bpf_math_reg(struct bpf_code *code, int op, int dst, int src);
/* dst = [src + offset] and [dst + offset] = src | imm; @size: BPF_B, BPF_H, BPF_W, BPF_DW. */
void bpf_load(struct bpf_code *code, int size, int dst, int src, int16_t offset);
void bpf_store(struct bpf_code *code, int size, int dst, int16_t offset, int src);
void bpf_store_imm(struct bpf_code *code, int size, int dst, int16_t offset, int32_t imm);
/* [dst + offset] += src, atomic, 64 bits. */
void bpf_add_atomic(struct bpf_code *code, int dst, int16_t offset, int src);
void bpf_call(struct bpf_code *code, enum bpf_helper helper);

/* A new label; placed once, by bpf_here(), before or behind the jumps to it. */
int bpf_label(struct bpf_code *code);
void bpf_here(struct bpf_code *code, int label);
/* if (dst OP imm | src) goto label; @op: BPF_JEQ, BPF_JNE, BPF_JGT ..., or BPF_JA: always. */
void bpf_jump(struct bpf_code *code, int op, int dst, int32_t imm, int label);
void bpf_jump_reg(struct bpf_code *code, int op, int dst, int src, int label);

/* Runs @body up to @turns times (Linux 5.17).  The verifier walks it twice, however many turns there are.  In the body r1
 * is the turn, r2 the caller's r10; r6 to r9 and the stack are its own.  It ends by bpf_return(): 0 goes on, 1 ends the
 * loop.  Uses r0 to r5 of the caller. */
void bpf_repeat(struct bpf_code *code, int32_t turns,
		void (*body)(struct bpf_code *code, const void *arg), const void *arg);
void bpf_return(struct bpf_code *code, int32_t value);

/* The pc and stack pointer of the sampled thread's user side into @pc and @sp (r7 to r9); @none: it
 * has none, or was interrupted in the kernel and @in_kernel is not set.  @in_kernel needs BTF and Linux
 * 5.15.  Uses r0 to r5; r6 is the context. */
void bpf_user_regs(struct bpf_code *code, int pc, int sp, bool in_kernel, int none);
/* r0 = the address of word @index of @words, or 0: jumps to @none.  Uses r0 to r5 and [r10 - 8]. */
struct bpf_words;
void bpf_word(struct bpf_code *code, const struct bpf_words *words, uint32_t index, int none);
/* The same for the index in register @index. */
void bpf_word_reg(struct bpf_code *code, const struct bpf_words *words, int index, int none);

/* ---- the program ---- */

/* One use of the program.  Its code begins with r6 = the context (struct bpf_perf_event_data), which
 * stays there, and ends by falling through: it jumps to a label at its end and never exits.  r0 to r5,
 * r7 to r9 and the stack are free.  @in_kernel: for bpf_user_regs(). */
struct bpf_part {
	const char *name;
	void (*emit)(struct bpf_code *code, void *arg, bool in_kernel);
	void *arg;
};

/* Loads one program of all parts.  Returns its descriptor; the maps in it stay alive with it.  < 0
 * with one line in @why: without permission, without BPF, or the verifier's last line. */
int bpf_program_new(const struct bpf_part *parts, size_t n, char *why, size_t why_size);
/* Is a program of no part accepted, and a ring?  0 or -errno; about 0.1 ms. */
int bpf_try(void);

/* ---- words ---- */

/* An array of 64-bit words that main and the program read and write.  Mapped: main uses plain loads
 * and stores of whole words. */
struct bpf_words {
	int fd; /* of the map; -1: none */
	_Atomic uint64_t *at;
	size_t n, mapped;
};
int bpf_words_new(size_t n, struct bpf_words *ret_words);
void bpf_words_deinit(struct bpf_words *words);

/* ---- rings ---- */

/* Records of any CPU, in order of their reservation.  A record is memory of the ring until it is put. */
struct bpf_ring;
struct bpf_ring_record {
	const void *data; /* 8-aligned */
	size_t len;	  /* as reserved */
	uint64_t position;
};
/* @bytes is rounded up to a power of two of pages, and allocated at once. */
int bpf_ring_new(size_t bytes, struct bpf_ring **ret_ring);
struct bpf_ring *bpf_ring_free(struct bpf_ring *ring);
/* For instructions, and to poll: readable when the program asked for a wake-up. */
int bpf_ring_fd(const struct bpf_ring *ring);
size_t bpf_ring_bytes(const struct bpf_ring *ring);
enum { BPF_RING_EMPTY = 1 };
/* 0 and the next finished record; BPF_RING_EMPTY: there is none.  A record that is still being written
 * is passed over and returned by a later call, so records of one CPU stay in order.  -EBADMSG: the ring
 * is damaged; -ENOMEM. */
int bpf_ring_next(struct bpf_ring *ring, struct bpf_ring_record *ret_record);
/* Gives a record back, in any order; each once. */
void bpf_ring_put(struct bpf_ring *ring, uint64_t position);
