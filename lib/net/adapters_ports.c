/* SPDX-License-Identifier: BSD-3-Clause */
/* The ports of adapters, by the kernel's files: without a PCI tree. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters.h"
#include "base/descriptor.h"

/* The first line of folder/name/ports/number/file, without its end; "" if there is none. */
static void read_line(const char *path, const char *file, char *line, int bytes)
{
	char name[512];
	line[0] = '\0';
	snprintf(name, sizeof(name), "%s/%s", path, file);
	FILE *stream = descriptor_read(name);
	if (!stream)
		return;
	if (!fgets(line, bytes, stream))
		line[0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	fclose(stream);
}

/* "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand". */
static struct adapters_port read_port(const char *path, const char *name, int number, int object)
{
	struct adapters_port port = { .number = number, .object = object };
	char line[64];
	snprintf(port.name, sizeof(port.name), "%s", name);
	read_line(path, "state", line, sizeof(line));
	port.is_active = atoi(line) == 4;
	port.use = port.is_active ? ADAPTERS_COUNTS : ADAPTERS_NOT_ACTIVE;
	read_line(path, "rate", line, sizeof(line));
	port.gbits = atoi(line) > 0 ? atoi(line) : 0;
	read_line(path, "link_layer", port.layer, sizeof(port.layer));
	return port;
}

int adapters_add_ports(struct adapters *adapters, const char *folder, const char *name, int object)
{
	char path[400];
	int n = 0;
	snprintf(path, sizeof(path), "%s/%s/ports", folder, name);
	DIR *ports = opendir(path);
	for (struct dirent *entry; ports && (entry = readdir(ports));) {
		const int number = atoi(entry->d_name);
		if (number < 1)
			continue;
		snprintf(path, sizeof(path), "%s/%s/ports/%d", folder, name, number);
		const struct adapters_port port = read_port(path, name, number, object);
		adapters_add_port(adapters, &port);
		n++;
	}
	if (ports)
		closedir(ports);
	return n;
}

void adapters_read_files(const struct adapters_source *source, struct adapters *adapters)
{
	DIR *folder = source->ports ? opendir(source->ports) : NULL;
	for (struct dirent *entry; folder && (entry = readdir(folder));)
		if (entry->d_name[0] != '.')
			adapters_add_ports(adapters, source->ports, entry->d_name, -1);
	if (folder)
		closedir(folder);
}
