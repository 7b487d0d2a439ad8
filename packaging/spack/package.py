# SPDX-License-Identifier: BSD-3-Clause
# Spack: copy to REPOSITORY/packages/corale/package.py; spack install corale +cuda cuda_arch=90
from spack.package import *


class Corale(AutotoolsPackage, CudaPackage):
    """Collective operations on the memory of NVIDIA GPUs and of hosts, for programs of NCCL, of MPI and of its own interface."""

    license("BSD-3-Clause")

    # The archive that `make dist` writes. There is no public address yet: name yours, and its checksum by `spack checksum`.
    url = "file:///opt/sources/corale-0.1.0.tar.xz"
    version("0.1.0")

    variant("mpi", default=True, description="Communicators from those of MPI, the MPI door, the measuring programs")
    variant("ucx", default=True, description="Messages between nodes by UCX")
    variant("hwloc", default=True, description="Which adapter lies beside which GPU")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi@3:", when="+mpi")
    depends_on("ucx@1.13:", when="+ucx")
    depends_on("hwloc@2:", when="+hwloc")
    depends_on("cuda@12.1:", when="+cuda")
    conflicts("cuda_arch=none", when="+cuda", msg="name the GPUs: cuda_arch=90")

    def configure_args(self):
        args = ["--without-cmocka"]
        args += self.with_or_without("ucx")
        args += self.with_or_without("hwloc")
        args.append(f"--with-mpi={self.spec['mpi'].mpicc}" if "+mpi" in self.spec else "--without-mpi")
        if "+cuda" in self.spec:
            archs = self.spec.variants["cuda_arch"].value
            args.append(f"--with-cuda={self.spec['cuda'].prefix}")
            args.append("NVCC_GENCODE=" + " ".join(f"-gencode arch=compute_{a},code=sm_{a}" for a in archs))
        else:
            args.append("--without-cuda")
        return args
