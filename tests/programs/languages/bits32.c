/* bits32.c - a 32-bit program that needs no 32-bit libc: gcc -m32 -nostdlib -static.
 *
 * _start > work32; ends by itself */
static int call(int number, int a)
{
	int r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(number), "b"(a) : "memory");
	return r;
}

__attribute__((noinline)) static int work32(int n)
{
	volatile int x = 0;

	for (int i = 0; i < n; i++)
		x += i;
	return x;
}

void _start(void);
void _start(void)
{
	for (int i = 0; i < 150; i++)
		work32(1000000);
	call(1, 0);
}
