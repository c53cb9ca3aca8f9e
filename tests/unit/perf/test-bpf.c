/* test-bpf.c - bpf.h: rings over given memory, whole and damaged; refused programs; a table. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#include "perf/bpf.h"

/* ---- rings ---- */

enum { SIZE = 4096 };

struct ring_memory {
	_Atomic uint64_t consumer, producer;
	_Alignas(8) uint8_t data[2 * SIZE];
	struct bpf_ring *ring;
};

static struct ring_memory *memory_new(uint64_t position)
{
	struct ring_memory *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	m->consumer = m->producer = position;
	assert_int_equal(bpf_ring_of(&m->consumer, &m->producer, m->data, SIZE, &m->ring), 0);
	return m;
}

static void memory_free(struct ring_memory *m)
{
	(void)bpf_ring_free(m->ring);
	free(m);
}

static void set_header(struct ring_memory *m, uint64_t position, uint32_t header)
{
	memcpy(m->data + position % SIZE, &header, sizeof(header));
	memcpy(m->data + SIZE + position % SIZE, &header, sizeof(header));
}

/* Reserves a record; @flags: bit 31 busy, bit 30 thrown away. */
static uint64_t reserve(struct ring_memory *m, uint32_t len, uint32_t flags)
{
	uint64_t position = m->producer;

	set_header(m, position, len | flags);
	m->producer = position + 8 + ((len + 7) & ~7u);
	return position;
}

static void expect(struct ring_memory *m, uint64_t position, size_t len)
{
	struct bpf_ring_record record;

	assert_int_equal(bpf_ring_next(m->ring, &record), 0);
	assert_int_equal(record.position, position);
	assert_int_equal(record.len, len);
	assert_ptr_equal(record.data, m->data + position % SIZE + 8);
}

static void expect_none(struct ring_memory *m)
{
	struct bpf_ring_record record;

	assert_int_equal(bpf_ring_next(m->ring, &record), BPF_RING_EMPTY);
}

static void test_ring_order(void **state)
{
	struct ring_memory *m = memory_new(SIZE - 16); /* the second record wraps */
	uint64_t a, b, c;

	(void)state;
	expect_none(m);
	a = reserve(m, 5, 0);
	b = reserve(m, 100, 0);
	(void)reserve(m, 8, 1u << 30);
	c = reserve(m, 8, 0);
	expect(m, a, 5);
	expect(m, b, 100);
	expect(m, c, 8);
	expect_none(m);
	bpf_ring_put(m->ring, b);
	assert_int_equal(m->consumer, a);
	bpf_ring_put(m->ring, a); /* over b and the one thrown away */
	assert_int_equal(m->consumer, c);
	bpf_ring_put(m->ring, c);
	assert_int_equal(m->consumer, m->producer);
	memory_free(m);
}

/* A record that is still written is passed over, and comes as soon as it is finished. */
static void test_ring_busy(void **state)
{
	struct ring_memory *m = memory_new(0);
	uint64_t a = reserve(m, 8, 1u << 31), b = reserve(m, 16, 0), c;

	(void)state;
	assert_int_equal(bpf_ring_room(m->ring), SIZE - 16 - 24); /* each has a header of 8 bytes */
	expect(m, b, 16);
	expect_none(m);
	bpf_ring_put(m->ring, b);
	assert_int_equal(m->consumer, 0);
	c = reserve(m, 24, 0);
	set_header(m, a, 8);
	expect(m, a, 8);
	expect(m, c, 24);
	expect_none(m);
	bpf_ring_put(m->ring, c);
	bpf_ring_put(m->ring, a);
	assert_int_equal(m->consumer, m->producer);
	assert_int_equal(bpf_ring_room(m->ring), SIZE);
	memory_free(m);
}

static void test_ring_many(void **state)
{
	struct ring_memory *m = memory_new(0);
	uint64_t first = m->producer, at[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(at); i++)
		at[i] = reserve(m, 8, 0);
	for (size_t i = 0; i < ARRAY_SIZE(at); i++)
		expect(m, at[i], 8);
	for (size_t i = ARRAY_SIZE(at); i-- > 1;)
		bpf_ring_put(m->ring, at[i]);
	assert_int_equal(m->consumer, first);
	bpf_ring_put(m->ring, at[0]);
	assert_int_equal(m->consumer, m->producer);
	memory_free(m);
}

static void test_ring_damaged(void **state)
{
	struct bpf_ring_record record;
	struct ring_memory *m = memory_new(0);

	(void)state;
	(void)reserve(m, 8, 0);
	set_header(m, 0, 100); /* longer than what was reserved */
	assert_int_equal(bpf_ring_next(m->ring, &record), -EBADMSG);
	memory_free(m);
	m = memory_new(0);
	m->producer = SIZE + 8; /* more than the ring holds */
	assert_int_equal(bpf_ring_next(m->ring, &record), -EBADMSG);
	memory_free(m);
	m = memory_new(0);
	m->producer = 4; /* half a header */
	assert_int_equal(bpf_ring_next(m->ring, &record), -EBADMSG);
	memory_free(m);
}

/* ---- the kernel's part ---- */

/* What the program of a session needs is refused with a reason, never taken by halves. */
static void test_refused(void **state)
{
	const struct bpf_map_of unknown = {"no_such_map", -1};
	const uint8_t settings[4] = {0};
	char why[256] = "";

	(void)state;
	assert_true(bpf_program_new("no_such_program", settings, sizeof(settings), NULL, 0, why,
				    sizeof(why)) < 0);
	assert_true(*why);
	*why = 0;
	assert_true(bpf_program_new("at_sample", settings, sizeof(settings), &unknown, 1, why,
				    sizeof(why)) < 0);
	assert_true(*why);
	*why = 0; /* settings of another size */
	assert_true(bpf_program_new("at_sample", settings, sizeof(settings), NULL, 0, why,
				    sizeof(why)) < 0);
	assert_true(*why);
}

static void test_memory(void **state)
{
	struct bpf_memory m = {.fd = -1};
	int r = bpf_try();

	(void)state;
	if (r < 0) {
		print_message("no BPF programs here: %s\n", strerror(-r));
		skip();
	}
	r = bpf_memory_map(5000);
	assert_true(r >= 0);
	assert_int_equal(bpf_memory_open(r, 5000, &m), 0);
	assert_int_equal(m.mapped % (size_t)sysconf(_SC_PAGESIZE), 0);
	assert_true(m.mapped >= 5000);
	memset(m.at, 7, 5000);
	bpf_memory_deinit(&m);
	assert_int_equal(m.fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ring_order), cmocka_unit_test(test_ring_busy),
		cmocka_unit_test(test_ring_many),  cmocka_unit_test(test_ring_damaged),
		cmocka_unit_test(test_refused),	   cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
