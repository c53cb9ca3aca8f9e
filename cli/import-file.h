/* import-file.h - a file of `perf record`, for `import` and for the commands that read a trace.  Thread: main. */
#pragma once

/* The recording in @input (a file, a folder of --kcore, "-").  < 0: logged. */
int import_file_open(const char *input);
/* Memory and descriptors for an import; once a process. */
void import_file_prepare(void);
/* Imports @input into a file in memory, *ret_fd.  Notes are printed.  < 0: logged. */
int import_file_to_memory(const char *input, int *ret_fd);
