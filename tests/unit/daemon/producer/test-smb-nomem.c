/* test-smb-nomem.c - the memory and its writers when an allocation fails: an error or a packet that
 * is lost and counted, nothing leaked, nothing half. */
#include <errno.h>

#include "tests/unit/fail-malloc.h"
#include "tests/unit/daemon/producer/smb-fixture.h"

#if FAIL_MALLOC

static void test_attach(void **state)
{
	struct fixture f;
	unsigned long n;
	int r = -ENOMEM;

	(void)state;
	service_init(&f.service, 4096, 16);
	for (n = 1; r == -ENOMEM; n++) {
		const int fd = service_fd(&f.service);
		const long held = malloc_held;

		malloc_fail(n, false);
		r = smb_attach(fd, 4096, service_commit, &f.service, &f.smb);
		malloc_fail(0, false);
		assert_int_equal(fcntl(fd, F_GETFD), -1);
		if (r < 0)
			assert_int_equal(malloc_held, held);
	}
	assert_int_equal(r, 0);
	assert_int_equal(n, 4); /* two allocations */
	finish(&f);
}

static void test_writer(void **state)
{
	struct smb_writer *w;
	struct fixture f;

	(void)state;
	start(&f, 4096, 2);
	f.smb->layout = 1;
	f.service.serve_at_once = false;
	malloc_fail(1, false);
	assert_int_equal(smb_writer_new(f.smb, BUFFER, 1 << 20, &w), -ENOMEM);
	malloc_fail(0, false);
	w = new_writer(&f, 1 << 20);
	assert_int_equal(smb_writer_id(w), 1); /* the failed one has taken none */
	assert_int_equal(put(w, 0, 3000), 0);
	/* The room cannot grow: nothing waits, so the packet is not begun; it is lost. */
	malloc_fail(2, true); /* the first is the test's own */
	assert_int_equal(put(w, 1, 10000), SMB_DROPPED);
	malloc_fail(0, false);
	assert_int_equal(smb_writer_waiting(w), 0);
	service_serve(&f.service);
	assert_int_equal(put(w, 2, 3000), 0);
	assert_int_equal(smb_writer_flush(w), 0);
	service_serve(&f.service);
	service_assemble(&f.service);
	assert_int_equal(f.service.n_packets, 2);
	expect_packet(&f.service, 0, 1, 0, 3000, FIRST);
	expect_packet(&f.service, 1, 1, 2, 3000, DROPPED);
	smb_writer_free(w);
	finish(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attach),
		cmocka_unit_test(test_writer),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
	printf("the sanitizer has its own allocator\n");
	return 77;
}
#endif
