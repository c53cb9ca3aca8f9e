/* sanitizer.c - programs made with -fsanitize=address and a shared runtime end at once where another
 * library comes before that runtime, since one that stands before malloc() would break it.  This one
 * does not.  The runtime asks this function for its defaults before it looks; a program that defines
 * it has its own asked instead (ASAN_OPTIONS=verify_asan_link_order=0 helps there).
 * sanitizer/asan_interface.h. */

__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}
