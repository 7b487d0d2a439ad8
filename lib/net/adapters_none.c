/* In the place of adapters_hwloc.c where hwloc was not there at build time: adapters without their places. */
#include <dirent.h>
#include <stdio.h>

#include "corale.h"
#include "adapters.h"
#include "base/log.h"

int adapters_read_tree(const struct adapters_source *source, struct adapters *adapters)
{
	snprintf(adapters->tree, sizeof(adapters->tree),
		 "none: this build has no hwloc: configure --with-hwloc");
	if (source->tree)
		return log_error(CORALE_ESETTING, -1,
				 "CORALE_TOPO_FILE=%s can't be read: this build has no hwloc; unset it, or "
				 "configure --with-hwloc",
				 source->tree);
	DIR *folder = source->ports ? opendir(source->ports) : NULL;
	for (struct dirent *entry; folder && (entry = readdir(folder));)
		if (entry->d_name[0] != '.')
			adapters_add_ports(adapters, source->ports, entry->d_name, -1);
	if (folder)
		closedir(folder);
	return 0;
}
