/* sign-mix.h - a hash of words, one after another.  For code of the host and of BPF.  Thread: any. */
#pragma once

static inline unsigned long long sign_mix(unsigned long long hash, unsigned long long word)
{
	hash = (hash ^ word) * 0xd6e8feb86659fd93ull;
	return hash ^ hash >> 32;
}

/* 16 bits, never 0. */
static inline unsigned int sign_end(unsigned long long hash)
{
	return (unsigned int)(hash >> 48) | !(hash >> 48);
}
