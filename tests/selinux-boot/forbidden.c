/* forbidden.c - run in the daemon's domain by tests/selinux-boot: tries what the policy must never allow.  Its
 * exit status is the set of what was allowed, a bit each, as the domain has nowhere to write: 0, all was refused. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <unistd.h>

static int network(void)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0;
}

static int opened(const char *path, int flags)
{
	return open(path, flags | O_CLOEXEC) >= 0;
}

static int data_as_code(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0) != MAP_FAILED;
}

static int other_program(void)
{
	return ptrace(PTRACE_SEIZE, 1, NULL, NULL) == 0;
}

int main(void)
{
	/* what is allowed, so that a program that did not run at all is not taken for a refusal */
	if (!opened("/usr/bin/perfwind", O_RDONLY) || !opened("/proc/1/status", O_RDONLY))
		return 64;
	return network() | opened("/etc/shadow", O_RDONLY) << 1 |
	       opened("/usr/bin/perfwind", O_WRONLY) << 2 | data_as_code() << 3 |
	       other_program() << 4 | opened("/etc/perfwind.conf", O_RDWR) << 5;
}
