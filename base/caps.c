/* caps.c - see caps.h.  System calls: two calls are not worth a dependency on libcap. */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/error.h"

int caps_get(struct caps *ret_caps)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capget, &header, d) < 0)
		return fail(-errno);
	*ret_caps = (struct caps){
		.effective = d[0].effective | (uint64_t)d[1].effective << 32,
		.permitted = d[0].permitted | (uint64_t)d[1].permitted << 32,
		.inheritable = d[0].inheritable | (uint64_t)d[1].inheritable << 32,
	};
	return 0;
}

int caps_set(const struct caps *caps)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3];

	for (unsigned i = 0; i < ARRAY_SIZE(d); i++)
		d[i] = (struct __user_cap_data_struct){
			.effective = (uint32_t)(caps->effective >> 32 * i),
			.permitted = (uint32_t)(caps->permitted >> 32 * i),
			.inheritable = (uint32_t)(caps->inheritable >> 32 * i),
		};
	return syscall(SYS_capset, &header, d) < 0 ? fail(-errno) : 0;
}

int caps_keep(uint64_t mask)
{
	struct caps caps;
	int r = caps_get(&caps);

	if (r < 0)
		return trace(r);
	caps.effective &= mask;
	caps.permitted &= mask;
	caps.inheritable &= mask;
	return trace(caps_set(&caps));
}

static uint64_t for_helpers = CAPS_ALL;

void caps_limit_helpers(uint64_t mask)
{
	for_helpers = mask;
}

int caps_keep_as_helper(uint64_t mask)
{
	struct caps caps;
	int r = caps_get(&caps);

	if (r < 0)
		return trace(r);
	caps.permitted &= mask & for_helpers;
	caps.effective = caps.permitted;
	caps.inheritable = 0;
	return trace(caps_set(&caps));
}

int caps_lay_aside(uint64_t in_effect)
{
	struct caps caps;
	int r = caps_get(&caps);

	if (r < 0)
		return trace(r);
	caps.permitted &= for_helpers | in_effect;
	caps.effective &= in_effect;
	caps.inheritable = 0;
	return trace(caps_set(&caps));
}
