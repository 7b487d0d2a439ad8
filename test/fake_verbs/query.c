/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs ask of the device. */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "faults.h"
#include "queue_pair.h"

enum {
	MANY = 1 << 16,
	DEPTH = 1 << 14,
	VENDOR = 0xfa4e,
	PKEY = 0xffff,
	WIDTH_4X = 2,
	SPEED_HDR = 64,
	LINK_UP = 5
};

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){ .node_guid = ibv_get_device_guid(context->device),
					  .sys_image_guid = ibv_get_device_guid(context->device),
					  .max_mr_size = UINT64_MAX,
					  .page_size_cap = UINT64_MAX << 12,
					  .vendor_id = VENDOR,
					  .vendor_part_id = 1,
					  .max_qp = MANY,
					  .max_qp_wr = DEPTH,
					  .max_sge = FAKE_MAX_SGE,
					  .max_sge_rd = FAKE_MAX_SGE,
					  .max_cq = MANY,
					  .max_cqe = 1 << 20,
					  .max_mr = MANY,
					  .max_pd = MANY,
					  .max_qp_rd_atom = 16,
					  .max_res_rd_atom = MANY,
					  .max_qp_init_rd_atom = 16,
					  .atomic_cap = IBV_ATOMIC_NONE,
					  .max_ah = 1 << 20,
					  .max_srq = MANY,
					  .max_srq_wr = DEPTH,
					  .max_srq_sge = FAKE_MAX_SGE,
					  .max_pkeys = 1,
					  .phys_port_cnt = 1 };
	return 0;
}

#undef ibv_query_port
/* Programs pass a struct ibv_port_attr: the other name keeps programs apart that were built before it grew. */
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)compat;
	fake_lock();
	attr->state = fake_faults_is_down() ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
	fake_unlock();
	attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
	attr->gid_tbl_len = attr->pkey_tbl_len = 1;
	attr->max_msg_sz = 1u << 30;
	attr->lid = fake_wire_lid();
	attr->sm_lid = 1;
	attr->active_width = WIDTH_4X;
	attr->active_speed = SPEED_HDR;
	attr->phys_state = LINK_UP;
	attr->link_layer = IBV_LINK_LAYER_INFINIBAND;
	return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	gid->global.subnet_prefix = htobe64(0xfe80000000000000u);
	gid->global.interface_id = ibv_get_device_guid(context->device);
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
		      uint32_t flags, size_t bytes)
{
	*entry = (struct ibv_gid_entry){ .gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_IB };
	return ibv_query_gid(context, (uint8_t)port, (int)index, &entry->gid);
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	*pkey = PKEY;
	return 0;
}

/* ---- What providers of real devices answer ---- */

_Bool mlx5dv_is_supported(struct ibv_device *d);
_Bool mlx5dv_is_supported(struct ibv_device *d)
{
	(void)d;
	return 0;
}

int efadv_query_device(struct ibv_context *context, void *attr, uint32_t bytes);
int efadv_query_device(struct ibv_context *context, void *attr, uint32_t bytes)
{
	return EOPNOTSUPP;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return EOPNOTSUPP;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return EOPNOTSUPP;
}

/* ---- Children and words ---- */

int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

const char *ibv_node_type_str(enum ibv_node_type type)
{
	return type == IBV_NODE_CA ? "InfiniBand channel adapter" : "unknown";
}

const char *ibv_event_type_str(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return "last WQE reached";
	case IBV_EVENT_DEVICE_FATAL:
		return "local catastrophic error";
	case IBV_EVENT_PORT_ERR:
		return "port error";
	case IBV_EVENT_PORT_ACTIVE:
		return "port active";
	default:
		return "unknown";
	}
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return "success";
	case IBV_WC_LOC_LEN_ERR:
		return "local length error";
	case IBV_WC_LOC_PROT_ERR:
		return "local protection error";
	case IBV_WC_WR_FLUSH_ERR:
		return "Work Request Flushed Error";
	case IBV_WC_REM_INV_REQ_ERR:
		return "remote invalid request error";
	case IBV_WC_REM_ACCESS_ERR:
		return "remote access error";
	case IBV_WC_RETRY_EXC_ERR:
		return "transport retry counter exceeded";
	default:
		return "unknown";
	}
}
