/* test-import.c - import.h: perf.data put together by hand, whose samples lie in this program. */
#include <sys/utsname.h>

#include "tests/unit/daemon/import-fixture.h"

#define CHAIN_TYPE (FIXTURE_TYPE | PERF_SAMPLE_CALLCHAIN)

int import_leaf(int x);
int import_caller(int x);

__attribute__((noinline)) int import_leaf(int x)
{
	return x + 1;
}

__attribute__((noinline)) int import_caller(int x)
{
	return import_leaf(x) * 3;
}

static void put_chain_head(struct buffer *b, const char *arch)
{

	for (uint64_t i = 0; i < 2; i++) {
		struct perf_event_attr attr =
			fixture_attr(i ? PERF_COUNT_SW_PAGE_FAULTS : PERF_COUNT_SW_CPU_CLOCK);
		uint8_t body[sizeof(attr) + 8];
		const uint64_t id = ID_A + i;

		attr.sample_type = CHAIN_TYPE;
		attr.freq = 1;
		attr.sample_freq = 99;
		if (i == 0) {
			buffer_append(b, "PERFILE2", 8);
			put64(b, 16);
		}
		memcpy(body, &attr, sizeof(attr));
		memcpy(body + sizeof(attr), &id, 8);
		put_record(b, 64, 0, body, sizeof(body));
	}
	put_feature(b, 6, arch); /* HEADER_ARCH */
}

static void put_chain_sample(struct buffer *b, uint64_t id, uint64_t time, uint32_t pid)
{
	const uint64_t leaf = (uint64_t)(uintptr_t)import_leaf + 1;
	const uint64_t words[] = {
		id,
		leaf,
		(uint64_t)pid << 32 | pid,
		time,
		0,
		10101,
		3,
		(uint64_t)-512,
		leaf,
		(uint64_t)(uintptr_t)import_caller + 9,
	};

	put_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, words, sizeof(words));
}

static void put_recording(struct buffer *b, uint64_t inode_off)
{
	put_chain_head(b, "x86_64");
	put_own_mapping(b, 7, inode_off);
	for (uint64_t i = 1; i <= 40; i++)
		put_chain_sample(b, i % 4 ? ID_A : ID_B, i * 1000000000, 7);
	put_chain_sample(b, ID_A, 41000000000, 0); /* the idle task */
}

static void test_names(void **state)
{
	const struct import_options options = {.no_inline = true};
	const struct account *a;
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_recording(&b, 0);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	a = &done.result.summary.account;
	assert_int_equal(a->received, 40);
	assert_int_equal(a->emitted, 30);
	assert_int_equal(a->whole, 30);
	assert_int_equal(a->frames, 60);
	assert_int_equal(a->skipped[SKIP_NOT_IN_SCOPE], 10);
	assert_int_equal(a->idle, 1);
	assert_int_equal(a->weight, 30 * 10101);
	assert_true(account_holds(a));
	assert_string_equal(done.result.event, "cpu-clock");
	assert_int_equal(done.result.frequency, 99);
	assert_true(done.result.summary.duration_s > 37.9 && done.result.summary.duration_s < 38.1);
	assert_true(has_text(&done, "import_leaf"));
	assert_true(has_text(&done, "import_caller"));
	done_deinit(&done);
}

/* The same bytes each time; nothing of today is in them. */
static void test_deterministic(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0}, c = {0};
	struct done first, second;

	(void)state;
	put_recording(&b, 0);
	put_recording(&c, 0);
	run(&b, &options, &first);
	run(&c, &options, &second);
	assert_int_equal(first.len, second.len);
	assert_memory_equal(first.data, second.data, first.len);
	done_deinit(&first);
	done_deinit(&second);
}

static void test_other_event(void **state)
{
	const struct import_options options = {.event = "page-faults"};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_recording(&b, 0);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, 10);
	assert_int_equal(done.result.summary.account.skipped[SKIP_NOT_IN_SCOPE], 31);
	assert_true(has_text(&done, "31 samples of cpu-clock were left out (-e EVENT takes"));
	done_deinit(&done);
}

/* Another file stands at the path today: its names are not these. */
static void test_replaced_file(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_recording(&b, 1);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, 30);
	assert_false(has_text(&done, "import_leaf"));
	done_deinit(&done);
}

static void put_kernel_sample(struct buffer *b, uint64_t time, uint64_t address)
{
	const uint64_t words[] = {
		ID_A, address, 9ull << 32 | 9, time, 0, 10101, 2, (uint64_t)-128, address,
	};

	put_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, words, sizeof(words));
}

/* A kernel thread's sample has no user part: it is whole with its kernel frames, nameless here. */
static void test_kernel_only(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_chain_head(&b, "x86_64");
	put_kernel_sample(&b, 5000000000, 0xffffffff81000010);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.whole, 1);
	assert_int_equal(done.result.summary.account.frames, 1);
	assert_true(has_text(&done, "kernel frames have no names"));
	done_deinit(&done);
}

/* The build id of its kernel is 1234, and _text was at @text. */
static void put_kernel(struct buffer *b, uint64_t text)
{
	static const uint64_t trailer[] = {0, 0, 0, 0};
	const char path[24] = "[kernel.kallsyms]_text";
	struct buffer body = {0};

	buffer_append(&body, "\xff\xff\xff\xff\x12\x34", 6);
	buffer_append(&body, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0", 22);
	buffer_append(&body, path, 17);
	buffer_append(&body, "\0\0\0", 3);
	put_record(b, 67, 1 << 15, body.data, body.len); /* HEADER_BUILD_ID, with its size */
	buffer_deinit(&body);
	body = (struct buffer){0};
	put64(&body, UINT32_MAX);
	put64(&body, text);
	put64(&body, 0x2000000);
	put64(&body, text);
	buffer_append(&body, path, sizeof(path));
	buffer_append(&body, trailer, sizeof(trailer));
	put_record(b, PERF_RECORD_MMAP, 1, body.data, body.len);
	buffer_deinit(&body);
}

/* perf's copy of the symbols of a kernel that runs nowhere here, in a HOME of our own. */
static void make_copy(char home[64])
{
	static const char text[] = "ffffffff81000000 T _text\n"
				   "ffffffff81000200 T of_the_copy\n"
				   "ffffffff81000300 T behind_it\n"
				   "ffffffffc0000000 t of_a_module\t[m]\n";
	char path[128];
	FILE *f;

	(void)snprintf(home, 64, "/tmp/perfwind-import-XXXXXX");
	assert_non_null(mkdtemp(home));
	(void)snprintf(path, sizeof(path), "%s/[kernel.kallsyms]", home);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/[kernel.kallsyms]/1234", home);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/[kernel.kallsyms]/1234/kallsyms", home);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, sizeof(text) - 1, f), sizeof(text) - 1);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(setenv("PERF_BUILDID_DIR", home, 1), 0);
}

static void remove_copy(const char *home)
{
	static const char *const below[] = {"/[kernel.kallsyms]/1234/kallsyms",
					    "/[kernel.kallsyms]/1234", "/[kernel.kallsyms]", ""};
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(below); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", home, below[i]);
		assert_int_equal(remove(path), 0);
	}
	assert_int_equal(unsetenv("PERF_BUILDID_DIR"), 0);
}

/* Another machine's kernel, which began elsewhere in that run: names by build id. */
static void test_kernel_copy(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;
	char home[64];

	(void)state;
	make_copy(home);
	put_chain_head(&b, "x86_64");
	put_kernel(&b, 0xffffffff9a000000);
	put_kernel_sample(&b, 1000000000, 0xffffffff9a000210);
	put_kernel_sample(&b, 2000000000, 0xffffffffc0000010); /* a module's: elsewhere now */
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, 2);
	assert_true(has_text(&done, "of_the_copy"));
	assert_false(has_text(&done, "behind_it"));
	assert_false(has_text(&done, "of_a_module"));
	assert_false(has_text(&done, "kernel frames have no names"));
	done_deinit(&done);
	remove_copy(home);
}

/* A mapping that is told behind samples which needed it: those stay without, later ones have it. */
static void test_late_mapping(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_chain_head(&b, "x86_64");
	put_chain_sample(&b, ID_A, 1000000000, 7);
	put_round(&b);
	put_chain_sample(&b, ID_A, 2000000000, 7);
	put_round(&b); /* lets the first one go */
	put_own_mapping(&b, 7, 0);
	put_chain_sample(&b, ID_A, 3000000000, 7);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, 3);
	assert_true(has_text(&done, "[unknown]"));
	assert_true(has_text(&done, "import_leaf"));
	assert_true(has_text(&done, "import_caller"));
	done_deinit(&done);
}

/* The host and the kernel are those of today, so that its names are read and outcomes wait. */
static void put_own_head(struct buffer *b)
{
	struct utsname names;

	assert_int_equal(uname(&names), 0);
	put_chain_head(b, names.machine);
	put_feature(b, 3, names.nodename); /* HEADER_HOSTNAME */
	put_feature(b, 4, names.release);  /* HEADER_OSRELEASE */
}

static void put_name(struct buffer *b, const char comm[8], uint64_t time)
{
	const uint64_t trailer[] = {7ull << 32 | 7, time, 0, ID_A};
	struct buffer body = {0};

	put64(&body, 7ull << 32 | 7);
	buffer_append(&body, comm, 8);
	buffer_append(&body, trailer, sizeof(trailer));
	put_record(b, PERF_RECORD_COMM, 0, body.data, body.len);
	buffer_deinit(&body);
}

/* Each of a thread's names is told, though samples of the first wait until it has its third. */
static void test_renames_while_waiting(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_own_head(&b);
	put_own_mapping(&b, 7, 0);
	put_name(&b, "firstly", 1000000000);
	put_chain_sample(&b, ID_A, 2000000000, 7);
	put_name(&b, "secondo", 3000000000);
	put_chain_sample(&b, ID_A, 4000000000, 7);
	put_name(&b, "thirdly", 5000000000);
	put_chain_sample(&b, ID_A, 6000000000, 7);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, 3);
	assert_true(has_text(&done, "firstly"));
	assert_true(has_text(&done, "secondo"));
	assert_true(has_text(&done, "thirdly"));
	done_deinit(&done);
}

/* Past the limits nothing waits any more, and nothing is lost: mappings change with each sample. */
static void test_many_while_waiting(void **state)
{
	enum { MANY = 3000 };
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_own_head(&b);
	for (uint64_t i = 1; i <= MANY; i++) {
		put_own_mapping(&b, 7, i % 2);
		put_chain_sample(&b, ID_A, i * 1000000, 7);
	}
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, MANY);
	assert_true(account_holds(&done.result.summary.account));
	done_deinit(&done);
}

static void check_error(struct buffer *b, const struct import_options *options, const char *word)
{
	struct done done;

	run(b, options, &done);
	assert_true(done.r < 0);
	assert_non_null(strstr(done.error, word));
	assert_int_equal(done.len, 0);
	done_deinit(&done);
}

static void test_refused(void **state)
{
	const struct import_options wrong = {.event = "cycles"}, options = {0};
	struct buffer b = {0};

	(void)state;
	put_recording(&b, 0);
	check_error(&b, &wrong, "no event cycles; it has: cpu-clock page-faults");
	put_chain_head(&b, "riscv64");
	put_chain_sample(&b, ID_A, 1, 7);
	check_error(&b, &options, "was recorded on riscv64");
	buffer_append(&b, "text", 4);
	check_error(&b, &options, "not a perf.data");
	buffer_append(&b, "PERFILE2\x10\0\0\0\0\0\0\0", 16);
	check_error(&b, &options, "no event that is sampled");
}

/* Damage in the midst: what was there before stands, and a note says what is missing. */
static void test_damage(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_recording(&b, 0);
	put64(&b, 0);
	put_chain_sample(&b, ID_A, 50000000000, 7);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, 30);
	assert_true(has_text(&done, "damaged: a record has an impossible size; 96 bytes"));
	done_deinit(&done);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_deterministic),
		cmocka_unit_test(test_other_event),
		cmocka_unit_test(test_replaced_file),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_kernel_only),
		cmocka_unit_test(test_kernel_copy),
		cmocka_unit_test(test_late_mapping),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_renames_while_waiting),
		cmocka_unit_test(test_many_while_waiting),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
