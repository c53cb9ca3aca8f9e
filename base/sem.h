/* sem.h - semaphores that hand work from one thread to another.  Thread: any. */
#pragma once

#include <errno.h>
#include <semaphore.h>

/* Waits also where a signal interrupts. */
static inline void sem_take(sem_t *sem)
{
	while (sem_wait(sem) < 0 && errno == EINTR)
		;
}
