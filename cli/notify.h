/* notify.h - telling whoever started us: systemd's protocol, one datagram, without its library.
 * Thread: main.  https://www.freedesktop.org/software/systemd/man/sd_notify.html */
#pragma once

/* @text: "KEY=VALUE" lines.  Does nothing without $NOTIFY_SOCKET; a failure is not ours to fix. */
void notify_state(const char *text);
/* RELOADING=1 with its time, as Type=notify-reload wants it. */
void notify_reloading(void);
/* Is @fd open for writing?  It is closed at an exec from here on.  < 0: it is not. */
int notify_check_fd(int fd);
