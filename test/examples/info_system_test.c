/* SPDX-License-Identifier: BSD-3-Clause */
/* What corale-info --net reads of the kernel's files, from folders made here. */
#include "test/helpers/unit.h"
#include "examples/info_net.h"

static const uint64_t gpu = 0x1b00; /* 0000:1b:00.0 */

static int make_folder(void **state)
{
	static char folder[64];
	snprintf(folder, sizeof(folder), "/tmp/info_system_test.XXXXXX");
	*state = mkdtemp(folder);
	return *state ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -r %s", (const char *)*state);
	return system(command);
}

/* With the folders that lead to it. */
static void write_file(const char *folder, const char *path, const void *data, size_t bytes)
{
	char command[400], name[300];
	snprintf(name, sizeof(name), "%s/%s", folder, path);
	snprintf(command, sizeof(command), "mkdir -p $(dirname %s)", name);
	assert_int_equal(system(command), 0);
	FILE *file = fopen(name, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, bytes, file), bytes);
	fclose(file);
}

static void write_text(const char *folder, const char *path, const char *text)
{
	write_file(folder, path, text, strlen(text));
}

UNIT_TEST_WITH(test_iommu, make_folder, remove_folder)
{
	static const char type[] = "bus/pci/devices/0000:1b:00.0/iommu_group/type";
	const char *folder = *state;
	assert_int_equal(info_system_translates(folder, gpu), -1);
	write_text(folder, "bus/pci/devices/0000:1b:00.0/vendor", "0x10de\n");
	assert_int_equal(info_system_translates(folder, gpu), 0);
	write_text(folder, type, "DMA-FQ\n");
	assert_int_equal(info_system_translates(folder, gpu), 1);
	write_text(folder, type, "DMA\n");
	assert_int_equal(info_system_translates(folder, gpu), 1);
	write_text(folder, type, "identity\n");
	assert_int_equal(info_system_translates(folder, gpu), 0);
	write_text(folder, type, "");
	assert_int_equal(info_system_translates(folder, gpu), -1);
}

/* An extended capability at its place: id, where the next one is, and ACS's control word. */
static void put(unsigned char *config, unsigned at, unsigned id, unsigned next, unsigned control)
{
	config[at] = (unsigned char)id;
	config[at + 1] = (unsigned char)(id >> 8);
	config[at + 2] = (unsigned char)(next << 4 | 1);
	config[at + 3] = (unsigned char)(next >> 4);
	config[at + 6] = (unsigned char)control;
}

static int read_config(const char *folder, const unsigned char *config, size_t bytes)
{
	write_file(folder, "bus/pci/devices/0000:1b:00.0/config", config, bytes);
	return info_system_redirects(folder, gpu);
}

UNIT_TEST_WITH(test_acs, make_folder, remove_folder)
{
	unsigned char config[4096] = { 0 };
	assert_int_equal(info_system_redirects(*state, gpu), -1);
	assert_int_equal(read_config(*state, config, sizeof(config)), 0);
	put(config, 0x100, 0x01, 0x158, 0);
	put(config, 0x158, 0x0d, 0x200, 0x1d);
	assert_int_equal(read_config(*state, config, sizeof(config)), 1);
	put(config, 0x158, 0x0d, 0x200, 0x11); /* all but the redirection of requests and completions */
	assert_int_equal(read_config(*state, config, sizeof(config)), 0);
	assert_int_equal(read_config(*state, config, 64), -1); /* what others than root see */
	put(config, 0x158, 0x02, 0x100, 0); /* a list without an end */
	assert_int_equal(read_config(*state, config, sizeof(config)), 0);
	put(config, 0x100, 0x01, 0xffc, 0x1d);
	put(config, 0xff8, 0x0d, 0xfff, 0x1d);
	assert_int_equal(read_config(*state, config, sizeof(config)), 0);
	memset(config, 0xff, sizeof(config)); /* a device that has fallen off the bus */
	assert_int_equal(read_config(*state, config, sizeof(config)), 0);
}

UNIT_TEST_WITH(test_proc, make_folder, remove_folder)
{
	const char *folder = *state;
	assert_int_equal(info_system_has_open_driver(folder), -1);
	write_text(folder, "driver/nvidia/version",
		   "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159  Release Build\n");
	assert_int_equal(info_system_has_open_driver(folder), 1);
	write_text(folder, "driver/nvidia/version",
		   "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.1\n");
	assert_int_equal(info_system_has_open_driver(folder), 0);
	write_text(folder, "cpuinfo", "processor : 0\nflags : fpu rdtscp hypervisor lahf_lm\n");
	assert_int_equal(info_system_is_virtual(folder), 1);
	write_text(folder, "cpuinfo", "processor : 0\nflags : fpu rdtscp lahf_lm\n");
	assert_int_equal(info_system_is_virtual(folder), 0);
}
