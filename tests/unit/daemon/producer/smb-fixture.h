/* smb-fixture.h - a memory, its service and packets with known content, for tests. */
#pragma once

#include "daemon/producer/smb.h"
#include "tests/unit/daemon/producer/smb-service.h"

enum { BUFFER = 7, PAYLOAD = 4080 /* of a page of 4 KiB with one chunk */ };

struct fixture {
	struct service service;
	struct smb *smb;
};

static inline void start(struct fixture *f, uint32_t page_size, uint32_t n_pages)
{
	service_init(&f->service, page_size, n_pages);
	assert_int_equal(smb_attach(service_fd(&f->service), page_size, service_commit, &f->service,
				    &f->smb),
			 0);
}

static inline void finish(struct fixture *f)
{
	assert_int_equal(f->service.violations, 0);
	smb_free(f->smb);
	service_deinit(&f->service);
}

static inline struct smb_writer *new_writer(struct fixture *f, size_t max_waiting)
{
	struct smb_writer *w;

	assert_int_equal(smb_writer_new(f->smb, BUFFER, max_waiting, &w), 0);
	return w;
}

/* The content of packet @n of writer @id: no two are alike, none is a run of anything. */
static inline void fill(uint8_t *to, size_t len, uint32_t id, uint32_t n)
{
	for (size_t i = 0; i < len; i++)
		to[i] = (uint8_t)hash_u64((uint64_t)id << 48 | (uint64_t)n << 24 | i >> 3);
}

/* @n starts from 0 for each writer; returns the write's result. */
static inline int put(struct smb_writer *w, uint32_t n, size_t len)
{
	_cleanup_(freep) uint8_t *packet = malloc(len + 1);
	int r;

	assert_non_null(packet);
	fill(packet, len, smb_writer_id(w), n);
	r = smb_writer_write(w, packet, len);
	assert_true(r >= 0);
	return r;
}

/* Packet number @at of all that were read is packet @n of writer @id, with @trailer behind it. */
static inline void expect_packet(const struct service *s, size_t at, uint32_t id, uint32_t n,
				 size_t len, const char *trailer, size_t trailer_len)
{
	_cleanup_(freep) uint8_t *want = malloc(len + trailer_len + 1);

	assert_non_null(want);
	assert_true(at < s->n_packets);
	fill(want, len, id, n);
	memcpy(want + len, trailer, trailer_len);
	assert_int_equal(s->packets[at].writer, id);
	assert_int_equal(s->packets[at].len, len + trailer_len);
	assert_memory_equal(s->packets[at].data, want, len + trailer_len);
}
#define FIRST "\xb8\x05\x01", 3
#define NONE "", 0
#define DROPPED "\xd0\x02\x81\x02", 4
#define FIRST_DROPPED "\xb8\x05\x01\xd0\x02\x81\x02", 7
