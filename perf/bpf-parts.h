/* bpf-parts.h - shared by bpf.c and bpf-ring.c, and the parts that tests use.  Thread: main. */
#pragma once

#include "perf/bpf.h"

/* Returns the descriptor of a new map (BPF_MAP_TYPE_*), or -errno. */
int bpf_map_new(uint32_t type, uint32_t key, uint32_t value, uint32_t entries, uint32_t flags);
/* A ring over given memory, for tests: @consumer and @producer hold one position each, @data @size
 * bytes, mapped twice in a row.  Borrows all. */
int bpf_ring_of(_Atomic uint64_t *consumer, const _Atomic uint64_t *producer, const uint8_t *data,
		size_t size, struct bpf_ring **ret_ring);
