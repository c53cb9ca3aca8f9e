/* module-file.c - see module-file.h. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "cli/module-file.h"
#include "proc/open-file.h"

static bool is_file(const char *path)
{
	struct stat st;

	return path && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int module_file_open_places(struct file_places *places, struct archive *archive)
{
	const char *tarball = is_file(places->buildid_dir) ? places->buildid_dir : NULL;
	const struct {
		const char *option, *path;
	} given[] = {{"symfs", places->symfs},
		     {"buildid-dir", tarball ? NULL : places->buildid_dir},
		     {"debug-dir", places->debug_dir}};

	for (size_t i = 0; i < ARRAY_SIZE(given); i++) {
		const char *path = given[i].path;
		struct stat st;

		if (!path || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
			continue;
		if (stat(path, &st) == 0 && strstr(path, ".tar"))
			log_error("--%s %s: it is an archive, not a folder (hint: --buildid-dir "
				  "takes one of perf archive; others: mkdir x && tar -xf %s -C x)",
				  given[i].option, path, path);
		else
			log_error("--%s %s: %s", given[i].option, path,
				  strerror(stat(path, &st) < 0 ? errno : ENOTDIR));
		return -EINVAL;
	}
	if (!tarball)
		return 0;
	places->buildid_dir = NULL;
	places->archive = archive->folder;
	return archive_unpack(tarball, archive);
}

static int open_debug(struct uw_source *source, const char *path)
{
	const struct module_file *file = container_of(source, struct module_file, source);
	int fd = file_places_open_debug(file->places, path);
	struct stat st;

	return fd >= 0 ? fd : procfs_open_regular(path, NULL, &st);
}

static struct uw_build_id id_of(const struct profile_module *m)
{
	struct uw_build_id id = {.len = 0};

	if (m->build_id_len <= UW_BUILD_ID_MAX) {
		id.len = (uint8_t)m->build_id_len;
		memcpy(id.bytes, m->build_id, id.len);
	}
	return id;
}

static int open_file(const struct file_places *places, const char *path,
		     const struct uw_build_id *id)
{
	struct uw_build_id found;
	bool proved = false;
	struct stat st;
	int fd = file_places_open_copy(places, path, id, &proved);

	if (fd >= 0 || !id->len)
		return fd;
	fd = path[0] == '/' ? procfs_open_regular(path, NULL, &st) : -ENOENT;
	if (fd >= 0) {
		struct uw_source source = {.fd = fd};

		if (uw_source_build_id(&source, &found) >= 0 && found.len == id->len &&
		    !memcmp(found.bytes, id->bytes, id->len))
			return fd;
		(void)fd_close(fd);
	}
	return file_places_open_cached(places, id);
}

bool module_file_is_one(const struct profile *p, const struct profile_module *m)
{
	const char *path = string_table_text(&p->strings, m->path);

	return !m->kernel && path[0] == '/' && path[1] != '[' && strncmp(path, "/tmp/perf-", 10);
}

static int take_file(struct module_file *file, const struct file_places *places, int fd)
{
	*file = (struct module_file){
		.places = places,
		.source = {.fd = fd, .open = open_debug, .no_duplicate = true},
	};
	return fd < 0 ? fail(-ENOENT) : 0;
}

int module_file_open(struct module_file *file, const struct file_places *places,
		     const struct profile *p, const struct profile_module *m)
{
	const char *path = string_table_text(&p->strings, m->path);
	struct uw_build_id id = id_of(m);

	return take_file(file, places, open_file(places, path, &id));
}

int module_file_open_debug(struct module_file *file, const struct file_places *places,
			   const struct profile_module *m)
{
	struct uw_build_id id = id_of(m);

	return take_file(file, places, file_places_open_debug_id(places, &id));
}

void module_file_close(struct module_file *file)
{
	file->source.fd = fd_close(file->source.fd);
}

int module_file_symbols(struct module_file *file, const struct profile *p,
			const struct profile_module *m, struct uw_module **ret)
{
	struct uw_build_id id = id_of(m);
	struct uw_module *module;
	int r = uw_module_new(UW_MODULE_FILE, string_table_text(&p->strings, m->path), &id,
			      &module);

	if (r < 0)
		return trace(r);
	r = uw_module_load_symbols(module, &file->source);
	if (r == -ENOMEM) {
		(void)uw_module_unref(module);
		return trace(r);
	}
	*ret = module; /* without symbols where they cannot be read: lines may be there */
	return 0;
}
