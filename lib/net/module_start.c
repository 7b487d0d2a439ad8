/* A module's side: its copy of the log speaks by the library's. */
#include "module.h"

/* The library keeps the text of an error also where it prints none. */
void module_start(enum log_level level, log_writer *writer)
{
	log_level = level > LOG_ERROR ? level : LOG_ERROR;
	log_set_writer(writer);
}
