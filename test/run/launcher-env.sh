# SPDX-License-Identifier: BSD-3-Clause
# Sourced: what the launchers of Open MPI 4, Open MPI 5 and MPICH need to run more ranks than cores, as root or
# not, without options on the command line. Each ignores the others' variables.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
# Ranks of one machine only: no remote daemons, no search for networks. The OFI component has ended runs on a busy machine.
export OMPI_MCA_btl="${OMPI_MCA_btl-^tcp,ofi}"
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
export HYDRA_BINDING=none

# So many seconds on an idle machine: up to five times as many where more runs than there are processors (test/helpers/busy.h).
busy_seconds()
{
	awk -v seconds="$1" -v processors="$(nproc)" '{ times = $1 / processors; print int(seconds * (times < 1 ? 1 : times > 5 ? 5 : times)) }' /proc/loadavg
}
