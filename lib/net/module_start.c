/* SPDX-License-Identifier: BSD-3-Clause */
/* A module's side: its copy of the log speaks by the library's. */
#include "module.h"

static void (*end_of_process)(void);

/* The library's own destructor runs behind those of what a module links. */
__attribute__((destructor)) static void at_end(void)
{
	if (end_of_process)
		end_of_process();
}

/* The library keeps the text of an error also where it prints none. */
void module_start(enum log_level level, log_writer *writer, void (*end)(void))
{
	end_of_process = end;
	log_level = level > LOG_ERROR ? level : LOG_ERROR;
	log_set_writer(writer);
}
