/* SPDX-License-Identifier: BSD-3-Clause */
/* Which network UCX is told to open: interfaces and adapters that are made up, and UCX's own configuration, read back. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "corale.h"
#include "base/log.h"
#include "net/ucx/ucx_devices.h"
#include "net/ucx/ucx_worker.h"

enum { MOST = 16 };

/* A host's interfaces, of getifaddrs's form. */
struct host {
	struct ifaddrs entry[MOST];
	struct sockaddr_in6 address[MOST];
	char name[MOST][16];
	int n;
};

/* "eth0 10.0.0.1", an address of either family; "eth0": none; a last "!": the interface has no carrier. */
static void add_interface(struct host *h, const char *text)
{
	const int i = h->n++;
	char address[64] = "";
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)&h->address[i];
	h->entry[i] = (struct ifaddrs){ .ifa_name = h->name[i],
					.ifa_flags = IFF_UP | (strchr(text, '!') ? 0 : IFF_RUNNING) };
	sscanf(text, "%15s %63[^!]", h->name[i], address);
	if (i)
		h->entry[i - 1].ifa_next = &h->entry[i];
	if (!address[0])
		return;
	h->entry[i].ifa_addr = (struct sockaddr *)&h->address[i];
	if (inet_pton(AF_INET, address, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		return;
	}
	h->address[i].sin6_family = AF_INET6;
	assert_int_equal(inet_pton(AF_INET6, address, &h->address[i].sin6_addr), 1);
}

static const struct ifaddrs *make_host(struct host *h, const char *const *texts)
{
	*h = (struct host){ .n = 0 };
	while (*texts)
		add_interface(h, *texts++);
	return h->n ? h->entry : NULL;
}

static struct settings parse(const char *const *variables)
{
	struct settings s;
	assert_int_equal(settings_parse((char *const *)(uintptr_t)variables, &s), 0);
	return s;
}

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

static struct adapters *ports;

static void add_port(const char *name, int number, int is_active)
{
	struct adapters_port port = { .number = number, .is_active = is_active, .object = -1 };
	snprintf(port.name, sizeof(port.name), "%s", name);
	adapters_add_port(ports, &port);
}

/* Two adapters, of which one has a second port without a cable. */
static void with_ports(void)
{
	ports->nports = 0;
	add_port("mlx5_0", 1, 1);
	add_port("mlx5_0", 2, 0);
	add_port("mlx5_1", 1, 1);
}

static void expect_choice(const char *const *variables, const char *const *interfaces, const char *devices)
{
	struct host h;
	struct ucx_network network;
	const struct settings s = parse(variables);
	assert_int_equal(
	    ucx_network_choose(&s, s.net_devices, make_host(&h, interfaces), ports, -1, &network), 0);
	assert_string_equal(network.devices, devices);
}

static const char *const usual[] = { "lo",           "eth0",          "eth1",          "docker0",
				     "lo 127.0.0.1", "eth0 10.0.0.1", "eth1 10.1.0.1", "docker0 172.17.0.1",
				     "lo ::1",       "eth0 fe80::1",  "veth7 fe80::2", NULL };

UNIT_TEST(chooses_one_interface)
{
	ports->nports = 0;
	expect_choice(LIST("A=b"), usual, "eth0");
	expect_choice(LIST("NCCL_SOCKET_IFNAME="), usual, "eth0");
	expect_choice(LIST("A=b"),
		      LIST("docker0 172.17.0.1", "lo 127.0.0.1", "ib0 10.2.0.1", "eth0 10.0.0.1"), "ib0");
	expect_choice(LIST("A=b"), LIST("lo 127.0.0.1", "docker0 172.17.0.1", "docker_gwbridge 172.18.0.1"),
		      "docker0");
	expect_choice(LIST("A=b"), LIST("lo 127.0.0.1"), "lo");
	/* One without a carrier is the last resort, as UCX does not open it. */
	expect_choice(LIST("A=b"), LIST("ib0 10.2.0.1!", "eth0 10.0.0.1"), "eth0");
	expect_choice(LIST("A=b"), LIST("lo 127.0.0.1", "docker0 172.17.0.1!"), "lo");
	expect_choice(LIST("A=b"), LIST("eth0:1 10.0.0.1"), "eth0");
	expect_choice(LIST("NCCL_SOCKET_FAMILY=AF_INET6"),
		      LIST("eth0 10.0.0.1", "eth0 fe80::1", "eth1 fd00::1"), "eth1");
	expect_choice(LIST("NCCL_SOCKET_FAMILY=AF_INET"), LIST("eth1 fd00::1", "eth0 10.0.0.1"), "eth0");
}

UNIT_TEST(follows_ifname)
{
	ports->nports = 0;
	expect_choice(LIST("NCCL_SOCKET_IFNAME=eth"), usual, "eth0,eth1");
	expect_choice(LIST("NCCL_SOCKET_IFNAME==eth1"), usual, "eth1");
	expect_choice(LIST("NCCL_SOCKET_IFNAME==eth"), LIST("eth 10.3.0.1", "eth0 10.0.0.1"), "eth");
	expect_choice(LIST("NCCL_SOCKET_IFNAME=docker0,lo"), usual, "lo,docker0");
	/* What is left out leaves the best of the others: "^docker0" leaves lo, which leads nowhere. */
	expect_choice(LIST("NCCL_SOCKET_IFNAME=^docker0"), usual, "eth0");
	expect_choice(LIST("NCCL_SOCKET_IFNAME=^docker,lo,=eth0"), usual, "eth1");
	expect_choice(LIST("NCCL_SOCKET_IFNAME=^=eth0,eth1"), usual, "docker0");
	expect_choice(LIST("NCCL_SOCKET_IFNAME=eth1", "CORALE_NET_DEVICES=docker0"), usual, "docker0");
}

UNIT_TEST(follows_hca)
{
	with_ports();
	expect_choice(LIST("A=b"), usual, "mlx5_0:1,mlx5_1:1,eth0");
	expect_choice(LIST("NCCL_IB_HCA=mlx5_1"), usual, "mlx5_1:1,eth0");
	expect_choice(LIST("NCCL_IB_HCA=^mlx5_1:1"), usual, "mlx5_0:1,eth0");
	expect_choice(LIST("NCCL_IB_HCA==mlx5_0:1,mlx5_1:1"), usual, "mlx5_0:1,mlx5_1:1,eth0");
	expect_choice(LIST("NCCL_IB_HCA=mlx5_9"), usual, "eth0");
	expect_choice(LIST("NCCL_IB_DISABLE=1"), usual, "eth0");
	expect_choice(LIST("NCCL_IB_DISABLE=0"), usual, "mlx5_0:1,mlx5_1:1,eth0");
	expect_choice(LIST("NCCL_NET=socket"), usual, "eth0");
	expect_choice(LIST("NCCL_NET=IB"), usual, "mlx5_0:1,mlx5_1:1");
	expect_choice(LIST("NCCL_NET=IB", "NCCL_IB_HCA=mlx5_1"), usual, "mlx5_1:1");
	expect_choice(LIST("NCCL_NET=IB", "NCCL_IB_DISABLE=1"), usual, "eth0");
	expect_choice(LIST("NCCL_NET=AWS Libfabric"), usual, "mlx5_0:1,mlx5_1:1,eth0");
	expect_choice(LIST("NCCL_IB_DISABLE=1", "CORALE_NET_DEVICES=mlx5_0:1"), usual, "mlx5_0:1");
}

/* What leaves no device is an error that says which variable and what there is. */
static void expect_refusal(const char *const *variables, int code, const char *text)
{
	struct host h;
	struct ucx_network network;
	const struct settings s = parse(variables);
	assert_int_equal(ucx_network_choose(&s, s.net_devices, make_host(&h, usual), ports, -1, &network),
			 code);
	if (!strstr(log_last_error(), text))
		fail_msg("'%s' lacks '%s'", log_last_error(), text);
}

UNIT_TEST(refuses_what_leaves_nothing)
{
	ports->nports = 0;
	expect_refusal(LIST("NCCL_NET=IB"), CORALE_ENOTSUP, "NCCL_NET=IB, and no RDMA adapter can be used");
	expect_refusal(LIST("NCCL_SOCKET_IFNAME=ens"), CORALE_ESETTING,
		       "NCCL_SOCKET_IFNAME='ens'; interfaces with addresses: lo, eth0,");
	with_ports();
	expect_refusal(LIST("NCCL_NET=IB", "NCCL_IB_HCA=mlx4"), CORALE_ENOTSUP, "named by NCCL_IB_HCA=mlx4");
	expect_choice(LIST("NCCL_SOCKET_IFNAME=ens"), usual, "mlx5_0:1,mlx5_1:1");
}

UNIT_TEST(names_docker)
{
	static const char *const alone[] = { "lo 127.0.0.1", "docker0 172.17.0.1", NULL };
	struct host h;
	struct ucx_network network;
	struct settings s = parse(LIST("A=b"));
	ports->nports = 0;
	assert_int_equal(ucx_network_choose(&s, "", make_host(&h, alone), ports, -1, &network), 0);
	assert_string_equal(network.docker, "docker0");
	assert_int_equal(ucx_network_choose(&s, "", make_host(&h, usual), ports, -1, &network), 0);
	assert_string_equal(network.docker, "");
	s = parse(LIST("NCCL_SOCKET_IFNAME=docker0"));
	assert_int_equal(ucx_network_choose(&s, "", make_host(&h, alone), ports, -1, &network), 0);
	assert_string_equal(network.docker, "");
}

/* ---- UCX's configuration, read back ---- */

static void print_config(const char *const *variables, const char *devices, char *text, size_t bytes)
{
	struct host h;
	struct ucx_network network;
	ucp_config_t *config;
	const struct settings s = parse(variables);
	assert_int_equal(ucx_network_choose(&s, devices, make_host(&h, usual), ports, -1, &network), 0);
	assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
	assert_int_equal(ucx_network_apply(&network, &s, -1, config), UCS_OK);
	assert_int_equal(ucx_network_apply_tcp(&network, &s, config), UCS_OK);
	FILE *stream = fmemopen(text, bytes, "w");
	assert_non_null(stream);
	fprintf(stream, "\n");
	ucp_config_print(config, stream, NULL, UCS_CONFIG_PRINT_CONFIG);
	fclose(stream);
	ucp_config_release(config);
}

static void expect_lines(const char *const *variables, const char *devices, const char *const *lines)
{
	char text[16384], line[128];
	print_config(variables, devices, text, sizeof(text));
	for (; *lines; lines++) {
		const int absent = **lines == '!';
		snprintf(line, sizeof(line), absent ? "%s" : "\n%s\n", *lines + absent);
		if ((strstr(text, line) == NULL) != absent)
			fail_msg("'%s' in:\n%s", *lines, text);
	}
}

static const char *const all_options[] = { "NCCL_IB_GID_INDEX=3", "NCCL_IB_TC=0x6a",     "NCCL_IB_SL=5",
					   "NCCL_IB_TIMEOUT=22",  "NCCL_IB_RETRY_CNT=6", NULL };

UNIT_TEST(tells_ucx_the_variables)
{
	with_ports();
	expect_lines(LIST("A=b"), "", LIST("UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1,eth0", "!GID_INDEX", "!\nRC_"));
	expect_lines(all_options, "",
		     LIST("IB_GID_INDEX=3", "IB_TRAFFIC_CLASS=106", "IB_SL=5", "RC_TIMEOUT=17179869184ns",
			  "RC_RETRY_COUNT=6", "UCX_WARN_INVALID_CONFIG=n"));
	expect_lines(all_options, "mlx5_1:1",
		     LIST("UCX_NET_DEVICES=mlx5_1:1", "IB_SL=5", "UCX_WARN_INVALID_CONFIG=y"));
	expect_lines(LIST("NCCL_IB_GID_INDEX=-1", "NCCL_IB_TIMEOUT=0"), "",
		     LIST("!GID_INDEX", "RC_TIMEOUT=35184372088832ns"));
}

/* UCX warns of what no transport takes. */
UNIT_TEST(tells_tcp_nothing_of_rdma)
{
	expect_lines(all_options, "eth0,lo", LIST("UCX_NET_DEVICES=eth0,lo", "!IB_SL", "!RC_TIMEOUT"));
	ports->nports = 0;
	expect_lines(all_options, "", LIST("UCX_NET_DEVICES=eth0", "!IB_SL", "!RC_TIMEOUT"));
	with_ports();
}

UNIT_TEST(tells_ucx_the_family)
{
	const int is_old = ucx_minor() <= 16;
	ports->nports = 0;
	expect_lines(LIST("NCCL_SOCKET_FAMILY=AF_INET"), "",
		     LIST(is_old ? "AF_PRIO=inet" : "TCP_AF_PRIO=inet"));
	expect_lines(LIST("NCCL_SOCKET_FAMILY=AF_INET6"), "lo",
		     LIST(is_old ? "AF_PRIO=inet6" : "TCP_AF_PRIO=inet6"));
	expect_lines(LIST("NCCL_SOCKET_FAMILY=6"), "", LIST("!AF_PRIO"));
	expect_lines(LIST("NCCL_SOCKET_FAMILY=AF_INET6"), "mlx5_0:1", LIST("!AF_PRIO"));
	setenv("UCX_TCP_AF_PRIO", "inet", 1);
	expect_lines(LIST("NCCL_SOCKET_FAMILY=AF_INET6"), "lo", LIST("!AF_PRIO"));
	unsetenv("UCX_TCP_AF_PRIO");
	with_ports();
}

/* Each connection of a bound socket has a port of the host for itself. */
UNIT_TEST(binds_no_socket_of_one_interface)
{
	const char *const line = ucx_minor() < 18 ? "!EP_BIND" : "TCP_EP_BIND_SRC_ADDR=n";
	expect_lines(LIST("A=b"), "lo",
		     LIST(line, ucx_minor() <= 16 ? "RX_SEG_SIZE=256k" : "TCP_RX_SEG_SIZE=256k"));
	expect_lines(LIST("A=b"), "mlx5_0:1,lo", LIST(line));
	expect_lines(LIST("A=b"), "lo,lo", LIST("!EP_BIND"));
	expect_lines(LIST("A=b"), "all", LIST("!EP_BIND"));
	expect_lines(LIST("A=b"), "mlx5_0:1", LIST("!EP_BIND", "!TX_SEG_SIZE=64k"));
	setenv("UCX_TCP_EP_BIND_SRC_ADDR", "y", 1);
	expect_lines(LIST("A=b"), "lo", LIST("!EP_BIND"));
	unsetenv("UCX_TCP_EP_BIND_SRC_ADDR");
}

UNIT_TEST(leaves_the_users_alone)
{
	setenv("UCX_IB_SL", "2", 1);
	setenv("UCX_RC_TIMEOUT", "1s", 1);
	expect_lines(all_options, "", LIST("IB_GID_INDEX=3", "!IB_SL", "!RC_TIMEOUT"));
	unsetenv("UCX_IB_SL");
	unsetenv("UCX_RC_TIMEOUT");
}

UNIT_TEST(passes_over_what_is_malformed)
{
	expect_lines(LIST("NCCL_IB_SL=16", "NCCL_IB_TC=high", "NCCL_IB_TIMEOUT=40", "NCCL_IB_RETRY_CNT=7x",
			  "NCCL_IB_GID_INDEX= "),
		     "", LIST("!IB_SL", "!TRAFFIC", "!\nRC_", "!GID"));
}

int main(void)
{
	ports = calloc(1, sizeof(*ports));
	const int failed = ports ? unit_run(NULL, NULL) : 1;
	free(ports);
	return failed;
}
