/* marks-functions.cc - built with -finstrument-functions: functions that return, and functions that are left. */
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <pthread.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define APART extern "C" __attribute__((noinline))

static volatile long sum;
static jmp_buf back;
static ucontext_t main_context, other_context;
static char other_stack[65536], signal_stack[65536];

APART void spin(int n)
{
	for (int i = 0; i < n; i++)
		sum += i;
}
APART void throw5()
{
	spin(1000);
	throw 1;
}
APART void throw4()
{
	throw5();
	spin(1);
}
APART void throw3()
{
	throw4();
	spin(1);
}
APART void throw2()
{
	throw3();
	spin(1);
}
APART void throw1()
{
	throw2();
	spin(1);
}
APART void catcher()
{
	try {
		throw1();
	} catch (int) {
		spin(1000);
	}
}
APART void jump2()
{
	spin(1000);
	longjmp(back, 1);
}
APART void jump1()
{
	jump2();
	spin(1);
}
APART void jumper()
{
	if (!setjmp(back))
		jump1();
	spin(1000);
}
APART void on_signal(int)
{
	spin(1000);
}
APART void signaller()
{
	stack_t stack = {};
	struct sigaction action = {};

	stack.ss_sp = signal_stack;
	stack.ss_size = sizeof(signal_stack);
	sigaltstack(&stack, NULL);
	action.sa_handler = on_signal;
	action.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	spin(1000);
}
APART void coroutine()
{
	spin(1000);
	swapcontext(&other_context, &main_context);
	spin(1000);
}
APART void swapper()
{
	getcontext(&other_context);
	other_context.uc_stack.ss_sp = other_stack;
	other_context.uc_stack.ss_size = sizeof(other_stack);
	other_context.uc_link = &main_context;
	makecontext(&other_context, coroutine, 0);
	swapcontext(&main_context, &other_context);
	spin(1000);
	swapcontext(&main_context, &other_context);
	spin(1);
}
APART void in_thread()
{
	spin(1000);
	pthread_exit(NULL);
}
APART void *thread(void *)
{
	in_thread();
	return NULL;
}
APART void in_child()
{
	spin(100000);
}
APART void after_exec()
{
	spin(1000000);
}
/* A name without a limit of 100 characters. */
APART void
a_function_with_a_name_that_is_longer_than_any_line_of_trace_marker_could_hold_in_older_tools_and_is_not_cut_off_anywhere()
{
	spin(1000);
}

int main(int argc, char **argv)
{
	pthread_t t;
	pid_t child;

	if (argc > 1) {
		after_exec();
		return 0;
	}
	catcher();
	jumper();
	signaller();
	swapper();
	a_function_with_a_name_that_is_longer_than_any_line_of_trace_marker_could_hold_in_older_tools_and_is_not_cut_off_anywhere();
	if (pthread_create(&t, NULL, thread, NULL))
		return 1;
	pthread_join(t, NULL);
	child = fork();
	if (!child) {
		in_child();
		_exit(0);
	}
	waitpid(child, NULL, 0);
	spin(20000000);
	execl(argv[0], argv[0], "again", (char *)NULL);
	return 1;
}
