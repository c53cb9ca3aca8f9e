/* cmd-daemon.h - the service status of `perfwind daemon` for systemd: one datagram a message, without libsystemd.
 * Thread: main.  https://www.freedesktop.org/software/systemd/man/sd_notify.html */
#pragma once

/* Sends @text ("KEY=VALUE" lines).  Does nothing without $NOTIFY_SOCKET; failures are ignored. */
void notify_state(const char *text);
/* Sends RELOADING=1 and the time, as Type=notify-reload requires. */
void notify_reloading(void);
/* Checks that @fd is open for writing and sets close-on-exec.  < 0: it is not. */
int notify_check_fd(int fd);
