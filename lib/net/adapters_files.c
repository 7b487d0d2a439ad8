/* Adapters without a PCI tree: those of a folder of the kernel's files. */
#include <dirent.h>

#include "adapters.h"

void adapters_read_files(const struct adapters_source *source, struct adapters *adapters)
{
	DIR *folder = source->ports ? opendir(source->ports) : NULL;
	for (struct dirent *entry; folder && (entry = readdir(folder));)
		if (entry->d_name[0] != '.')
			adapters_add_ports(adapters, source->ports, entry->d_name, -1);
	if (folder)
		closedir(folder);
}
