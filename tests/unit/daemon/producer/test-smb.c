/* test-smb.c - the memory and its writers against a service written from the format's facts. */
#include <errno.h>
#include <sys/stat.h>

#include "daemon/producer/smb.h"
#include "tests/unit/daemon/producer/smb-fixture.h"

/* ---- attaching ---- */
static int attach(int fd, uint32_t page_size)
{
	struct smb *smb = NULL;
	int r = smb_attach(fd, page_size, NULL, NULL, &smb);

	smb_free(smb);
	assert_int_equal(fcntl(fd, F_GETFD), -1); /* consumed in any case */
	return r;
}

static int sealed(off_t size, int seals, unsigned flags)
{
	int fd = memfd_create("test-smb", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void test_attach(void **state)
{
	static const struct {
		off_t size;
		uint32_t page;
		int r;
	} cases[] = {
		{4096, 4096, 0},
		{65536, 65536, 0},
		{32 << 20, 32768, 0},
		{262144, 4096, 0},
		{0, 4096, -EINVAL},
		{4095, 4096, -EINVAL},
		{4096 + 8, 4096, -EINVAL},
		{4096, 8192, -EINVAL},
		{262144, 0, -EINVAL},
		{262144, 12288, -EINVAL},
		{262144, 2048, -EINVAL},
		{262144, 131072, -EINVAL},
		{262144, UINT32_MAX, -EINVAL},
		{1ll << 40, 4096, -EINVAL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(attach(sealed(cases[i].size, F_SEAL_SHRINK, 0), cases[i].page),
				 cases[i].r);
}

/* What can be cut short under us, or is not memory at all, is not mapped. */
static void test_attach_unsealed(void **state)
{
	char path[] = "/tmp/test-smb-XXXXXX";
	int fd, ends[2];

	(void)state;
	assert_int_equal(attach(sealed(262144, 0, 0), 4096), -EPERM);
	assert_int_equal(attach(sealed(262144, F_SEAL_GROW, 0), 4096), -EPERM);
	fd = mkstemp(path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ftruncate(fd, 262144), 0);
	assert_int_equal(attach(fd, 4096), -EPERM);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(attach(ends[0], 4096), -EPERM);
	close(ends[1]);
	/* Sealed against writing too: the kernel does not map it. */
	assert_int_equal(attach(sealed(262144, F_SEAL_SHRINK | F_SEAL_WRITE, 0), 4096), -EPERM);
	/* Huge pages, where there are any. */
	fd = memfd_create("test-smb", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	if (fd >= 0) {
		assert_int_equal(ftruncate(fd, 2 << 20), 0);
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
		assert_int_equal(attach(fd, 4096), -EPERM);
	}
}

static void test_layouts(void **state)
{
	/* The format's own table for pages of 4096. */
	static const uint32_t sizes[] = {0, 4088, 2044, 1020, 584, 292, 0, 0};
	/* Pages, page size, the layout chosen: chunks near 4 KiB, at least 16 chunks. */
	static const struct {
		uint32_t n_pages, page_size, layout;
	} cases[] = {{64, 4096, 1},  {16, 4096, 1}, {8, 4096, 2},     {1, 4096, 5}, {32, 8192, 2},
		     {16, 16384, 3}, {8, 32768, 4}, {1024, 32768, 4}, {4, 65536, 5}};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++)
		assert_int_equal(smb_chunk_size(4096, i), sizes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture f;

		start(&f, cases[i].page_size, cases[i].n_pages);
		assert_int_equal(f.smb->layout, cases[i].layout);
		finish(&f);
	}
}

/* ---- chunks ---- */
/* Every page size with every layout: all chunks taken, none twice, given, read, and free again. */
static void test_chunks(void **state)
{
	static const uint32_t n_chunks[] = {0, 1, 2, 4, 7, 14};

	(void)state;
	for (uint32_t page_size = 4096; page_size <= 65536; page_size *= 2) {
		for (uint32_t layout = 1; layout <= 5; layout++) {
			const uint32_t n = 3 * n_chunks[layout];
			struct smb_chunk chunks[3 * SMB_MAX_CHUNKS], more;
			struct fixture f;

			start(&f, page_size, 3);
			f.service.serve_at_once = false;
			f.smb->layout = layout;
			for (uint32_t i = 0; i < n; i++) {
				assert_int_equal(smb_chunk_take(f.smb, 5, i, 0, &chunks[i]), 0);
				assert_int_equal(chunks[i].size,
						 ((page_size - 8) / n_chunks[layout]) & ~3u);
				memset(chunks[i].data + 8, (int)i, chunks[i].size - 8);
			}
			assert_int_equal(smb_chunk_take(f.smb, 5, n, 0, &more), SMB_FULL);
			for (uint32_t i = 0; i < n; i++) {
				assert_int_equal(chunks[i].data[8], i); /* it was not overwritten */
				assert_int_equal(chunks[i].data[chunks[i].size - 1], i);
				chunks[i].data[8] = 0; /* one empty fragment */
				assert_int_equal(smb_chunk_give(f.smb, &chunks[i], 1, BUFFER), 0);
				assert_null(chunks[i].data);
			}
			assert_int_equal(smb_chunk_take(f.smb, 5, n, 0, &more), SMB_FULL);
			assert_int_equal(smb_commit(f.smb), 0);
			service_serve(&f.service);
			assert_int_equal(f.service.n_copies, n);
			for (uint32_t i = 0; i < 3; i++)
				assert_int_equal(*service_word(&f.service, i), 0);
			finish(&f);
		}
	}
}

/* Pages that another has cut up, in any layout, are used as they are; pages of no layout are left
 * alone. */
static void test_foreign_pages(void **state)
{
	struct smb_chunk c;
	struct fixture f;

	(void)state;
	start(&f, 4096, 4);
	*service_word(&f.service, 0) = 2u << 28 | 1;	       /* 2 chunks, one in use */
	*service_word(&f.service, 1) = 6u << 28;	       /* reserved */
	*service_word(&f.service, 2) = 0x3;		       /* states without a layout */
	*service_word(&f.service, 3) = 5u << 28 | 0x0fffffffu; /* 14 chunks, all complete */
	assert_int_equal(smb_chunk_take(f.smb, 9, 77, 0x403, &c), 0);
	assert_int_equal(c.page, 0);
	assert_int_equal(c.index, 1);
	assert_int_equal(c.size, 2044);
	assert_ptr_equal(c.data, f.smb->base + 8 + 2044);
	assert_int_equal(*service_word(&f.service, 0), 2u << 28 | 1 | 1 << 2);
	assert_memory_equal(c.data, "\x4d\0\0\0\x09\0\x03\x04", 8);
	assert_int_equal(smb_chunk_take(f.smb, 9, 78, 0, &(struct smb_chunk){0}), SMB_FULL);
	assert_int_equal(smb_chunk_give(f.smb, &c, 0x403, 3), 0);
	assert_int_equal(*service_word(&f.service, 0), 2u << 28 | 1 | 3 << 2);
	assert_int_equal(f.smb->n_moves, 1);
	assert_int_equal(f.smb->moves[0].page, 0);
	assert_int_equal(f.smb->moves[0].chunk, 1);
	assert_int_equal(f.smb->moves[0].target_buffer, 3);
	assert_int_equal(smb_commit(f.smb), 0);
	finish(&f);
}

/* ---- packets ---- */
static void test_one_packet(void **state)
{
	struct fixture f;
	struct smb_writer *w;

	(void)state;
	start(&f, 4096, 64);
	w = new_writer(&f, 0);
	assert_int_equal(smb_writer_id(w), 1);
	assert_int_equal(smb_writer_write(w, "\x08\x01", 2), 0);
	/* Chunk 0 of page 0: written by writer 1; two fragments as far as a scraper knows. */
	assert_int_equal(*service_word(&f.service, 0), 1u << 28 | 1);
	assert_memory_equal(f.service.base + 8, "\0\0\0\0\1\0\2\0\5\x08\1\xb8\5\1", 14);
	assert_int_equal(f.service.n_commits, 0);
	assert_int_equal(smb_writer_flush(w), 0);
	assert_int_equal(f.service.n_commits, 1);
	assert_int_equal(f.service.copies[0].packets, 2); /* the second is empty */
	assert_int_equal(f.service.copies[0].buffer, BUFFER);
	assert_int_equal(smb_writer_flush(w), 0);
	assert_int_equal(f.service.n_commits, 1); /* nothing new, nothing sent */
	service_assemble(&f.service);
	assert_int_equal(f.service.n_packets, 1);
	assert_memory_equal(f.service.packets[0].data, "\x08\x01\xb8\x05\x01", 5);
	w = smb_writer_free(w);
	assert_null(w);
	finish(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attach),	      cmocka_unit_test(test_attach_unsealed),
		cmocka_unit_test(test_layouts),	      cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_foreign_pages), cmocka_unit_test(test_one_packet),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
