/* test-import-kernel.c - which names the kernel's frames get: of perf's copy of that kernel's symbols, of
 * the kernel that runs where it is the same boot, or none, with the reason. */
#include "tests/unit/import/import-fixture.h"

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

/* The head of a recording of the kernel that there is a copy of. */
static void begin_with_copy(struct buffer *b, char home[64])
{
	make_copy(home);
	put_chain_head(b, "x86_64");
	put_kernel(b, 0xffffffff9a000000);
}

/* Another machine's kernel, which began elsewhere in that run: names by build id. */
static void test_kernel_copy(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;
	char home[64];

	(void)state;
	begin_with_copy(&b, home);
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

/* A program of the kernel's (BPF) that is loaded, or with @gone unloaded. */
static void put_ksymbol(struct buffer *b, uint64_t start, const char *name, bool gone,
			uint64_t time)
{
	const uint64_t trailer[] = {0, time, 0, ID_A};
	char room[16] = "";
	struct buffer body = {0};

	(void)snprintf(room, sizeof(room), "%s", name);
	put64(&body, start);
	put32(&body, 0x100);
	put32(&body, (gone ? 1u << 16 : 0) | 1); /* u16 type: BPF, u16 flags: UNREGISTER */
	buffer_append(&body, room, sizeof(room));
	buffer_append(&body, trailer, sizeof(trailer));
	put_record(b, 17, 0, body.data, body.len);
	buffer_deinit(&body);
}

/* What stood at an address at the time of each sample. */
static void test_comes_and_goes(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;
	char home[64];

	(void)state;
	begin_with_copy(&b, home);
	put_kernel_sample(&b, 1000000000, 0xffffffffc0001010);
	put_ksymbol(&b, 0xffffffffc0001000, "first_program", false, 2000000000);
	put_kernel_sample(&b, 3000000000, 0xffffffffc0001020);
	put_ksymbol(&b, 0xffffffffc0001000, "first_program", true, 4000000000);
	put_kernel_sample(&b, 5000000000, 0xffffffffc0001030);
	put_ksymbol(&b, 0xffffffffc0001000, "next_program", false, 6000000000);
	put_kernel_sample(&b, 7000000000, 0xffffffffc0001040);
	put_kernel_sample(&b, 8000000000, 0xffffffff9a000220);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_samples(&done, "9/9 cpu 0 count 10101: ?\n"
			      "9/9 cpu 0 count 20202: first_program\n"
			      "9/9 cpu 0 count 30303: ?\n"
			      "9/9 cpu 0 count 40404: next_program\n"
			      "9/9 cpu 0 count 50505: of_the_copy\n");
	done_deinit(&done);
	remove_copy(home);
}

static void check_note(struct buffer *b, const char *note)
{
	const struct import_options options = {0};
	struct done done;

	assert_int_equal(setenv("PERF_BUILDID_DIR", "/nowhere", 1), 0);
	run(b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, 1);
	assert_true(has_text(&done, note));
	done_deinit(&done);
	assert_int_equal(unsetenv("PERF_BUILDID_DIR"), 0);
}

static void test_other_machine(void **state)
{
	struct buffer b = {0};

	(void)state;
	put_chain_head(&b, "x86_64");
	put_feature(&b, 3, "a.host.that.is.not.this"); /* HEADER_HOSTNAME */
	put_feature(&b, 4, "0.0.1");		       /* HEADER_OSRELEASE */
	put_kernel_sample(&b, 1000000000, 0xffffffff81000010);
	check_note(&b, "kernel frames have no names (it was recorded on another kernel or machine");
}

/* Address and name of a function of the kernel that runs, and where its text begins.  Skips the test where they
 * are hidden. */
static void look_up(uint64_t *ret_text, uint64_t *ret_address, char ret_name[128])
{
	FILE *f = fopen("/proc/kallsyms", "re");
	char line[512], type, name[128];
	uint64_t address;

	*ret_text = *ret_address = 0;
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) && !(*ret_text && *ret_address)) {
		if (sscanf(line, "%lx %c %127s", &address, &type, name) != 3)
			continue;
		if (!strcmp(name, "_text"))
			*ret_text = address;
		if (!strcmp(name, "vfs_read")) {
			*ret_address = address;
			strcpy(ret_name, name);
		}
	}
	(void)fclose(f);
	if (!*ret_text || !*ret_address) {
		print_message("skip: /proc/kallsyms shows no addresses\n");
		skip();
	}
}

static void test_this_boot(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;
	uint64_t text, address;
	char name[128], expected[192];

	(void)state;
	look_up(&text, &address, name);
	assert_int_equal(setenv("PERF_BUILDID_DIR", "/nowhere", 1), 0);
	put_own_head(&b);
	put_kernel(&b, text);
	put_kernel_sample(&b, 1000000000, address + 1);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	(void)snprintf(expected, sizeof(expected), "9/9 cpu 0 count 10101: %s\n", name);
	assert_samples(&done, expected);
	done_deinit(&done);
	assert_int_equal(unsetenv("PERF_BUILDID_DIR"), 0);
}

/* Outcomes wait for the names of today, and get those that were there in their time. */
static void test_comes_and_goes_while_waiting(void **state)
{
	const struct import_options options = {0};
	const uint64_t nowhere = 0xffffffffff001000; /* behind modules, below the vsyscall page */
	struct buffer b = {0};
	struct done done;
	uint64_t text, address;
	char name[128];

	(void)state;
	look_up(&text, &address, name);
	assert_int_equal(setenv("PERF_BUILDID_DIR", "/nowhere", 1), 0);
	put_own_head(&b);
	put_kernel(&b, text);
	put_kernel_sample(&b, 1000000000, nowhere + 0x10);
	put_ksymbol(&b, nowhere, "first_program", false, 2000000000);
	put_kernel_sample(&b, 3000000000, nowhere + 0x20);
	put_ksymbol(&b, nowhere, "first_program", true, 4000000000);
	put_ksymbol(&b, nowhere, "next_program", false, 5000000000);
	put_kernel_sample(&b, 6000000000, nowhere + 0x30);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_samples(&done, "9/9 cpu 0 count 10101: ?\n"
			      "9/9 cpu 0 count 20202: first_program\n"
			      "9/9 cpu 0 count 30303: next_program\n");
	done_deinit(&done);
	assert_int_equal(unsetenv("PERF_BUILDID_DIR"), 0);
}

/* The same host and release, but its text began elsewhere: names of today would be wrong. */
static void test_other_boot(void **state)
{
	uint64_t text, address;
	struct buffer b = {0};
	char name[128];

	(void)state;
	look_up(&text, &address, name);
	put_own_head(&b);
	put_kernel(&b, text + 0x200000);
	put_kernel_sample(&b, 1000000000, address + 0x200001);
	check_note(&b, "kernel frames have no names (it was recorded before the last boot)");
}

/* The same host and release, and no record states where its text began: its boot is unknown. */
static void test_no_place(void **state)
{
	uint64_t text, address;
	struct buffer b = {0};
	char name[128];

	(void)state;
	look_up(&text, &address, name);
	put_own_head(&b);
	put_kernel_sample(&b, 1000000000, address + 1);
	check_note(
		&b,
		"kernel frames have no names (the file does not have the address of its kernel)");
}

/* A recording that was killed: no size, and none of what stands behind the records. */
static void test_unfinished(void **state)
{
	enum { DATA_SIZE_AT = 48 }; /* in the header */
	const uint64_t sample[] = {ID_A, 0xffffffff81000010, 9ull << 32 | 9, 5000000000, 0, 1};
	struct buffer b = {0}, data = {0};

	(void)state;
	put_record(&data, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, sample, sizeof(sample));
	put_file(&b, &data, 0, NULL, NULL);
	memset(b.data + DATA_SIZE_AT, 0, 8);
	check_note(&b,
		   "kernel frames have no names (perf ended before it wrote the kernel's release)");
	buffer_deinit(&data);
}

/* Why the kernel's frames have no names: three files of one sample in the kernel, with what stands
 * behind their records. */
static void test_reasons(void **state)
{
	static const struct {
		uint64_t bits;
		size_t cut;
		const char *why;
	} cases[] = {
		{0, 0, "(the file does not identify the kernel it was recorded on)"},
		{1 << 6, 0, "(the file does not identify the kernel it was recorded on)"},
		{1 << 6 | 1 << 4 | 1 << 3, 0, "(it was recorded on another kernel or machine)"},
		/* in the machine, the release, the list of the sections */
		{1 << 6 | 1 << 4 | 1 << 3, 1, "(it was recorded on another kernel or machine)"},
		{1 << 6 | 1 << 4 | 1 << 3, 20,
		 "(the part of the file that identifies its kernel is cut off)"},
		{1 << 6 | 1 << 4 | 1 << 3, 80,
		 "(the part of the file that identifies its kernel is cut off)"},
	};
	static const char *const words[] = {"box", "6.1.0-9", "x86_64"};
	const uint64_t sample[] = {ID_A, 0xffffffff81000010, 9ull << 32 | 9, 5000000000, 0, 1};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct import_options options = {0};
		struct buffer b = {0}, data = {0}, features = {0};
		struct done done;
		size_t sizes[3], n = 0;

		put_record(&data, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, sample,
			   sizeof(sample));
		for (size_t w = 0; w < ARRAY_SIZE(words); w++) {
			size_t from = features.len;

			if (!(cases[i].bits >> (w == 2 ? 6 : 3 + w) & 1))
				continue;
			put_string(&features, words[w]);
			sizes[n++] = features.len - from;
		}
		put_file(&b, &data, cases[i].bits, &features, sizes);
		b.len -= cases[i].cut;
		run(&b, &options, &done);
		assert_int_equal(done.r, 0);
		assert_int_equal(done.result.summary.account.emitted, 1);
		assert_true(has_text(&done, "kernel frames have no names"));
		assert_true(has_text(&done, cases[i].why));
		done_deinit(&done);
		buffer_deinit(&data);
		buffer_deinit(&features);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel_copy),
		cmocka_unit_test(test_comes_and_goes),
		cmocka_unit_test(test_other_machine),
		cmocka_unit_test(test_this_boot),
		cmocka_unit_test(test_other_boot),
		cmocka_unit_test(test_comes_and_goes_while_waiting),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_no_place),
		cmocka_unit_test(test_unfinished),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
