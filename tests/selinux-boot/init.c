/* init.c - the first program of the machine that tests/selinux-boot/boot-image.sh starts: loads the drivers of its
 * disk, /modules/0.ko, 1.ko ... in that order, and hands over to the system on it.  Static, as nothing else
 * is there yet; what fails ends it, and with it the machine. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

static int failed(const char *what)
{
	(void)printf("boot: %s: %s\n", what, strerror(errno));
	return 1;
}

int main(void)
{
	char *const argv[] = {"/sbin/init", NULL}, *const envp[] = {NULL};

	for (int i = 0;; i++) {
		char path[32];
		int fd;

		(void)snprintf(path, sizeof(path), "/modules/%d.ko", i);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			break;
		if (syscall(SYS_finit_module, fd, "", 0) < 0)
			return failed(path);
		(void)close(fd);
	}
	if (mount("devtmpfs", "/dev", "devtmpfs", 0, NULL) < 0)
		return failed("/dev");
	/* the driver finds the disk a moment after it was loaded */
	for (int i = 0; i < 600 && access("/dev/vda", F_OK) < 0; i++)
		(void)usleep(100000);
	if (mount("/dev/vda", "/disk", "ext4", 0, NULL) < 0)
		return failed("/dev/vda");
	if (mount("/dev", "/disk/dev", NULL, MS_MOVE, NULL) < 0 || chdir("/disk") < 0 ||
	    mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0)
		return failed("/disk");
	(void)execve(argv[0], argv, envp);
	return failed(argv[0]);
}
