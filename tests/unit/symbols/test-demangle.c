/* test-demangle.c - what a name looks like to a person, and names made to hurt. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include "symbols/demangle.h"

static void test_names(void **state)
{
	static const char *const names[][2] = {
		{"main", "main"},
		{"", ""},
		{"_", "_"},
		{"_Z", "_Z"},
		{"_ZZZ", "_ZZZ"},
		{"_start", "_start"},
		/* C++ */
		{"_Z3fooi", "foo(int)"},
		{"_ZN3Foo3barEv", "Foo::bar()"},
		{"_ZNK3Foo3barEv", "Foo::bar() const"},
		{"_Z3fooIiEvT_", "foo<int>(int)"}, /* no "void" in front */
		{"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const"},
		{"_ZN3FooC1Ev", "Foo::Foo()"},
		/* clones */
		{"_Z3fooi.cold", "foo(int) [clone .cold]"},
		{"_Z3fooi.part.0", "foo(int) [clone .part.0]"},
		{"_Z3fooi.isra.0", "foo(int) [clone .isra.0]"},
		{"_Z3foov.llvm.123", "foo() [clone .llvm.123]"},
		{"foo.cold", "foo.cold"},
		{"foo.part.0", "foo.part.0"},
		/* versions and PLT entries */
		{"memcpy@@GLIBC_2.14", "memcpy"},
		{"memcpy@GLIBC_2.2.5", "memcpy"},
		{"_ZNSt6thread4joinEv@@GLIBCXX_3.4.11", "std::thread::join()"},
		{"puts@plt", "puts@plt"},
		{"_Z3fooi@plt", "foo(int)@plt"},
		{"memcpy@GLIBC_2.2.5@plt", "memcpy@plt"},
		{"@plt", "@plt"},
		{"@", "@"},
		{"@@", "@@"},
		{"a@", "a@"},
		{"a@@", "a@@"},
		/* names of JITs stay */
		{"f@file.js:3", "f@file.js:3"},
		{"f@10", "f@10"},
		{"LazyCompile:~f /a/b.js:1", "LazyCompile:~f /a/b.js:1"},
		{"py::f:/usr/lib/x.py", "py::f:/usr/lib/x.py"},
		/* OCaml */
		{"camlStdlib__Hashtbl__find_996", "Stdlib.Hashtbl.find"},
		{"camlStdlib__Hashtbl.find_996", "Stdlib.Hashtbl.find"}, /* 5.1 on */
		{"camlWork__inner_268", "Work.inner"},
		{"camlStdlib__anon_fn$5bstdlib$2eml$3a334$2c0$2d$2d54$5d_1453",
		 "Stdlib.anon_fn[stdlib.ml:334,0--54]"},
		{"camlStdlib__bytes__$2b$2b_2205", "Stdlib.bytes.++"},
		{"camlWork__fun_1234", "Work.fun_1234"},
		{"camlWork__$g$", "Work.$g$"},
		{"camlWork__$01_1", "Work.$01"},
		{"camlWork__x__", "Work.x__"},
		{"camlWork__1", "Work.1"},
		{"camlWork", "camlWork"},
		{"caml_main", "caml_main"},
		{"caml", "caml"},
		/* Haskell */
		{"base_GHCziBase_map_info", "GHC.Base.map"},
		{"base_GHCziBase_zpzp_info", "GHC.Base.++"},
		{"Main_zdwfib_info", "Main.$wfib"},
		{"Main_fib_info", "Main.fib"},
		{"ghczmprim_GHCziTypes_ZC_con_info", "GHC.Types.:"},
		{"ghczmprim_GHCziTuple_Z3T_con_entry", "GHC.Tuple.(,,)"},
		{"ghczmprim_GHCziPrim_Z2H_info", "GHC.Prim.(#,#)"},
		{"containerszm0zi6zi7_DataziMapziInternal_zdwinsert_slow",
		 "Data.Map.Internal.$winsert"},
		{"Main_z3bbUzq_info", "Main.\316\273'"},
		{"Main_zzZZ_fast", "Main.zZ"},
		{"Utils_fold_info", "Utils_fold_info"}, /* C as well as Haskell */
		{"image_resizing_info", "image_resizing_info"},
		{"Main_fib_closure", "Main_fib_closure"},
		{"Main_zx_info", "Main_zx_info"},
		{"Main_z_info", "Main_z_info"},
		{"Main_z3bb_info", "Main_z3bb_info"},
		{"Main_zffffffffffU_info", "Main_zffffffffffU_info"},
		{"Main_Z99999999999T_info", "Main_Z99999999999T_info"},
		{"Main__info", "Main__info"},
		{"Main_a_b_c_d_info", "Main_a_b_c_d_info"},
		/* Rust */
		{"_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place"},
		{"_ZN4core3ptr13drop_in_place17h0123456789abcdefE.llvm.42",
		 "core::ptr::drop_in_place"},
		{"_ZN50_$LT$T$u20$as$u20$core..convert..Into$LT$U$GT$$GT$4into17h0123456789abcdefE",
		 "<T as core::convert::Into<U>>::into"},
		{"_RNvCs1234_7mycrate3foo", "mycrate::foo"},
		{"_RNvC7mycrateu8gdel_5qa", "mycrate::g\303\266del"},
		{"_ZN4core3ptr13drop_in_place17h0123456789abcdefE.cold",
		 "core::ptr::drop_in_place [clone .cold]"},
		{"_ZN3foo5a..b$3bar17h0123456789abcdefE", "foo::a::b$::bar"},
		{"_ZN3foo12$u7b$$u7d$$x17h0123456789abcdefE", "foo::{}$x"},
		{"_ZN3foo17h0123456789abcdeE",
		 "_ZN3foo17h0123456789abcdeE"}, /* 17 bytes are not there */
		{"_ZN3foo17h0123456789abcdegE", "foo::h0123456789abcdeg"}, /* C++ after all */
		{"_RNvC6_123foo3bar", "123foo::bar"},
		{"_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
		 "utf8_idents::"
		 "\341\203\241\341\203\220\341\203\255\341\203\233\341\203\224\341\203\232\341\203"
		 "\220\341\203\223_"
		 "\341\203\222\341\203\224\341\203\233\341\203\240\341\203\230\341\203\224\341\203"
		 "\232\341\203\230_"
		 "\341\203\241\341\203\220\341\203\223\341\203\230\341\203\232\341\203\230"},
		{"_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}"},
		{"_RNCINkXs25_NgCsbmNqQUJIY6D_4core5sliceINyB9_4IterhENuNgNoBb_"
		 "4iter8iterator8Iterator9rpositionNCNgNpB9_6memchr7memrchrs_0E0Bb_",
		 "<core::slice::Iter<u8> as "
		 "core::iter::iterator::Iterator>::rposition::<core::slice::memchr::memrchr::{"
		 "closure#1}>::{closure#0}"},
		{"_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_"
		 "ECs1iopQbuBiw2_3std",
		 "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>"},
		{"_RINvNtC3std3mem8align_ofjE", "std::mem::align_of::<usize>"},
		{"_RINvNtC3std3mem8align_ofjE.llvm.9D1C9369", "std::mem::align_of::<usize>"},
		{"_RINvNtC3std3mem8align_ofjE.cold", "std::mem::align_of::<usize> [clone .cold]"},
		{"_RNvMC0INtC8arrayvec8ArrayVechKj7b_E3new", "<arrayvec::ArrayVec<u8, 123>>::new"},
		{"_RMC0INtC1c8UnsignedKhb_E", "<c::Unsigned<11>>"},
		{"_RMC0INtC1c6SignedKanb_E", "<c::Signed<-11>>"},
		{"_RMC0INtC1c4BoolKb1_E", "<c::Bool<true>>"},
		{"_RMC0INtC1c4CharKc76_E", "<c::Char<'v'>>"},
		{"_RMC0INtC1c4HugeKo123456789abcdef01_E", "<c::Huge<0x123456789abcdef01>>"},
		{"_RMC0INtC1c3AnyKpE", "<c::Any<_>>"},
		{"_RIC1aTEE", "a::<()>"},
		{"_RIC1aThEE", "a::<(u8,)>"},
		{"_RIC1aThtRSlQAej2_PmOoE", "_RIC1aThtRSlQAej2_PmOoE"}, /* one E too few */
		{"_RIC1aThtRSlQAej2_PmOoEE",
		 "a::<(u8, u16, &[i32], &mut [str; 2], *const u32, *mut u128)>"},
		{"_RIC1aFUKChEuE", "a::<unsafe extern \"C\" fn(u8)>"},
		{"_RIC1aFK9rust_callhtElE", "a::<extern \"rust-call\" fn(u8, u16) -> i32>"},
		{"_RIC1aFG0_RL1_hRL0_tEuE", "a::<for<'a, 'b> fn(&'a u8, &'b u16)>"},
		{"_RIC1aL_E", "a::<'_>"},
		{"_RIC1aL0_E", "_RIC1aL0_E"}, /* not a lifetime */
		{"_RNSNvC3foo3bar6vtables_0", "_RNSNvC3foo3bar6vtables_0"},
		{"_RNSNvC3foo3bars_6vtable", "foo::bar::{shim:vtable#1}"},
		{"_RNvB_1a", "_RNvB_1a"}, /* a reference into itself */
		{"_RNvNvB0_1a1b", "_RNvNvB0_1a1b"},
		{"_RNvB9_1a", "_RNvB9_1a"}, /* and forward */
		{"_RINvC1a1fB2_FGonu3fooPCsiLUlcGT0_fL",
		 "_RINvC1a1fB2_FGonu3fooPCsiLUlcGT0_fL"}, /* years in libiberty */
		{"_RMIC0FGZZZZZZZ_EuEu", "_RMIC0FGZZZZZZZ_EuEu"},
		{"_RCsAr_0c", "_RCsAr_0c"},
		{"_RCsAr_99999999999999999999c", "_RCsAr_99999999999999999999c"},
		{"_RCszzzzzzzzzzzzzzzzzzz_1c", "_RCszzzzzzzzzzzzzzzzzzz_1c"},
		{"_R", "_R"},
		{"_RX", "_RX"},
		/* D */
		{"_Dmain", "D main"},
		{"_D3std5stdio7writelnFZv", "std.stdio.writeln"},
		{"_D3foo3Bar6__ctorMFiZC3foo3Bar", "foo.Bar.this"},
		{"_D3foo8__T3barZ3bazFZv", "foo.bar!(...).baz"},
		{"_D3foo__T3barTiZQhFZv", "foo.bar!(...)"},
		{"_D3fooQeFZv", "foo.foo"}, /* a reference 4 back */
		{"_D3fooQzFZv", "_D3fooQzFZv"},
		{"_D3fooQ", "_D3fooQ"},
		{"_D99foo", "_D99foo"},
		{"_D99999999999999999999foo", "_D99999999999999999999foo"},
		{"_D0", "_D0"},
		{"_D", "_D"},
		{"_Destroy", "_Destroy"},
	};
	char out[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		memset(out, 'x', sizeof(out));
		uw_demangle(names[i][0], out, sizeof(out));
		if (strcmp(out, names[i][1]) != 0)
			fail_msg("%s: got \"%s\", not \"%s\"", names[i][0], out, names[i][1]);
	}
}

static void test_size(void **state)
{
	static const char full[] = "foo(int)@plt";
	char out[32];

	(void)state;
	uw_demangle("_Z3fooi@plt", out, 0);
	for (size_t size = 1; size < sizeof(out); size++) {
		memset(out, 'x', sizeof(out));
		uw_demangle("_Z3fooi@plt", out, size);
		assert_int_equal(strlen(out), min_u64(size - 1, strlen(full)));
		assert_memory_equal(out, full, strlen(out));
		if (size < sizeof(out) - 1)
			assert_int_equal(out[size], 'x');
	}
	uw_demangle("_RNvC7mycrateu8gdel_5qa", out, 12);
	assert_string_equal(out, "mycrate::g"); /* no half of a character */
	uw_demangle("_RNvC7mycrateu8gdel_5qa", out, 13);
	assert_string_equal(out, "mycrate::g\303\266");
	uw_demangle("\303\266\303\266", out, 4);
	assert_string_equal(out, "\303\266");
}

/* Each pair is made of two of the one before: 2^40 words of text in 300 bytes. */
static void test_doubling(void **state)
{
	char name[4096] = "_Z1fSt4pairIiiE", out[1024];

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		char id[8], one[32];

		if (i == 0)
			strcpy(id, "S_");
		else
			(void)snprintf(id, sizeof(id), "S%s%c_", i > 36 ? "1" : "",
				       (i - 1) % 36 < 10 ? '0' + (char)((i - 1) % 36)
							 : 'A' + (char)((i - 1) % 36 - 10));
		(void)snprintf(one, sizeof(one), "St4pairI%s%sE", id, id);
		strcat(name, one);
	}
	uw_demangle(name, out, sizeof(out));
	assert_int_equal(strlen(out), sizeof(out) - 1);
	assert_memory_equal(out, "f(std::pair<int, int>", 21);
}

/* Rust's v0 form doubles by back references. */
static void test_rust_doubling(void **state)
{
	/* the first pair stands behind "IC1a", each further one is made of the one before */
	char name[1024] = "_RIC1aThhE", out[64];
	size_t last = 4;

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		static const char digits[] =
			"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
		size_t here = strlen(name) - 2, n = last - 1;
		char reference[8], one[32];

		if (n < 62)
			(void)snprintf(reference, sizeof(reference), "B%c_", digits[n]);
		else
			(void)snprintf(reference, sizeof(reference), "B%c%c_", digits[n / 62],
				       digits[n % 62]);
		(void)snprintf(one, sizeof(one), "T%s%sE", reference, reference);
		strcat(name, one);
		last = here;
	}
	strcat(name, "E");
	uw_demangle(name, out, sizeof(out));
	assert_string_equal(out, "a::<(u8, u8), ((u8, u8), (u8, u8)), (((u8, u8), (u8, u8)), ((u8");
}

static void test_long(void **state)
{
	static char name[100000];
	char out[200];

	(void)state;
	/* deep nesting: refused or cut, at any length */
	for (size_t len = 10; len < sizeof(name) - 10; len += len / 3) {
		static const char *const parts[] = {"P",  "F",	"M",	"N1a", "I",
						    "cl", "on", "XadL", "Dp",  "1f"};

		for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
			size_t at = 5;

			strcpy(name, "_Z1fI");
			while (at < len) {
				strcpy(name + at, parts[i]);
				at += strlen(parts[i]);
			}
			strcpy(name + at, "iEvv");
			uw_demangle(name, out, sizeof(out));
			assert_in_range(strlen(out), 1, sizeof(out) - 1);
		}
	}
	memset(name, 'a', sizeof(name) - 1);
	uw_demangle(name, out, sizeof(out));
	assert_int_equal(strlen(out), sizeof(out) - 1);
	/* a template of two thousand bytes is not an attack */
	strcpy(name, "_Z1fIJ");
	for (unsigned i = 0; i < 300; i++)
		strcat(name, "7Element");
	strcat(name, "EEvv");
	uw_demangle(name, out, sizeof(out));
	assert_memory_equal(out, "f<Element, Element", 18);
}

/* The text is cut at the end of the room; another language's name is not taken. */
static void test_rust_text(void **state)
{
	char to[8];
	struct uw_text text = {.to = to, .size = sizeof(to)};

	(void)state;
	assert_true(uw_demangle_rust("_RNvC1a1f", &text));
	assert_int_equal(text.len, 4);
	assert_memory_equal(to, "a::f", 4);
	text.len = 0;
	assert_true(uw_demangle_rust("_RNvC4some8function", &text));
	assert_int_equal(text.len, 7);
	assert_memory_equal(to, "some::f", 7);
	text.len = 0;
	assert_false(uw_demangle_rust("_Z3fooi", &text));
	text.len = 0;
	assert_false(uw_demangle_rust("main", &text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	 cmocka_unit_test(test_size),
		cmocka_unit_test(test_doubling), cmocka_unit_test(test_rust_doubling),
		cmocka_unit_test(test_long),	 cmocka_unit_test(test_rust_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
