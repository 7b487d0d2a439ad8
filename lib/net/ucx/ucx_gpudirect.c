/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_context.h"

#include <stdio.h>
#include <unistd.h>

#include "ucx_devices.h"
#include "ucx_worker.h"

/* From here on UCX can be kept from copying by streams what it has not registered (PROTO_EMULATION_ENABLE). From 1.19 on MEMTYPE_COPY_ENABLE=n does so,
 * and forbids all messages of hosts that are copied, too. */
enum { DMABUF_MINOR = 21 };

/* As UCX looks for the module: its drivers before 2022 and NVIDIA's have other names, and older UCX knows one of them. */
static const char *find_peermem(void)
{
	static const struct {
		const char *path;
		unsigned first; /* minor version that knows it */
	} files[] = { { "/sys/kernel/mm/memory_peers/nv_mem/version", 0 },
		      { "/sys/module/nvidia_peermem/version", 18 },
		      { "/sys/module/nv_peer_mem/version", 18 } };
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (ucx_minor() >= files[i].first && access(files[i].path, F_OK) == 0)
			return files[i].path;
	return NULL;
}

static enum ucx_gpudirect_mode mode_of(const struct ucx_gpudirect *g)
{
	if (!g->has_verbs || !g->has_adapter)
		return UCX_GPUDIRECT_NONE;
	if (g->peermem)
		return UCX_GPUDIRECT_PEERMEM;
	return g->has_cuda && ucx_minor() >= DMABUF_MINOR ? UCX_GPUDIRECT_DMABUF : UCX_GPUDIRECT_NONE;
}

void ucx_gpudirect_look(ucp_context_h context, struct ucx_gpudirect *out)
{
	*out = (struct ucx_gpudirect){ .has_adapter = ucx_devices_have_rdma(context),
				       .has_verbs = ucx_devices_have_component(context, "ib"),
				       .has_cuda = ucx_devices_have_component(context, "cuda_cpy") };
	ucp_get_version(&out->major, &out->minor, &out->release);
	out->peermem = find_peermem();
	out->mode = mode_of(out);
}

static const char *why_none(const struct ucx_gpudirect *g)
{
	if (!g->has_verbs)
		return "none: UCX has no verbs";
	if (!g->has_adapter)
		return "none: UCX opens no RDMA adapter";
	return g->has_cuda
		   ? "none: there is no kernel module nvidia-peermem, and UCX before 1.21 would copy"
		   : "none: there is no kernel module nvidia-peermem, and UCX has no CUDA for dmabufs";
}

void ucx_gpudirect_print(const struct ucx_gpudirect *g, char *text, size_t bytes)
{
	const char *mode = g->mode == UCX_GPUDIRECT_PEERMEM  ? "by nvidia-peermem"
			   : g->mode == UCX_GPUDIRECT_DMABUF ? "by dmabuf"
							     : why_none(g);
	snprintf(text, bytes, "%s (%s; UCX %u.%u.%u %s verbs, %s CUDA)", mode,
		 g->peermem ? g->peermem : "no file of nvidia-peermem", g->major, g->minor, g->release,
		 g->has_verbs ? "with" : "without", g->has_cuda ? "with" : "without");
}

const char *ucx_gpudirect_advice(const struct ucx_gpudirect *g)
{
	if (!g->has_verbs)
		return "install a UCX that was built with verbs";
	if (g->mode == UCX_GPUDIRECT_NONE)
		return "load nvidia-peermem (modprobe nvidia_peermem), or install UCX 1.21 or newer with "
		       "verbs and CUDA for dmabufs";
	if (g->mode == UCX_GPUDIRECT_DMABUF)
		return "dmabufs need Linux 5.12, NVIDIA's open kernel modules and rdma-core 34; else load "
		       "nvidia-peermem";
	return "memory of cuMemCreate needs gpuDirectRDMACapable, room in the GPU's BAR1 and a sufficient "
	       "ulimit -l; in "
	       "virtual machines, or with an IOMMU, see that the adapter reaches the GPU (iommu=pt, ACS)";
}
