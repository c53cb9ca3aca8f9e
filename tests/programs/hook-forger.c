/* hook-forger.c - answers the hook's request with what it likes: hook-forger SECONDS SOCKET FILE FILE.
 * The files are opened at once, before anything about them changes.
 * What it runs is forger_main > burn. */
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "libc-hook/hook-proto.h"
#include "program.h"

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static int fds[HOOK_DESCRIPTORS];

static void answer(int signal, siginfo_t *info, void *context)
{
	union {
		char bytes[CMSG_SPACE(sizeof(fds))];
		struct cmsghdr align;
	} control = {0};
	char byte = HOOK_BYTE;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	int to = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)signal;
	(void)context;
	if (info->si_code != SI_QUEUE || info->si_value.sival_int != HOOK_VALUE)
		return;
	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(&control.align), fds, sizeof(fds));
	if (connect(to, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    sendmsg(to, &m, MSG_NOSIGNAL) != 1)
		perror("hook-forger");
	close(to);
}

NOINLINE void forger_main(void)
{
	while (program_running())
		burn(100);
	NOT_LAST;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_RESTART};

	if (argc != 5 || strlen(argv[2]) >= sizeof(address.sun_path))
		return 2;
	strcpy(address.sun_path, argv[2]);
	for (int i = 0; i < HOOK_DESCRIPTORS; i++) {
		fds[i] = open(argv[3 + i], O_RDONLY);
		if (fds[i] < 0) {
			perror(argv[3 + i]);
			return 1;
		}
	}
	sigaction(HOOK_SIGNAL, &action, NULL);
	program_start(argc, argv);
	forger_main();
	return 0;
}
