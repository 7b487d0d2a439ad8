# SPDX-License-Identifier: BSD-3-Clause
"""Where Corale's files lie among this Python's packages. Nothing of Corale is loaded by this."""
import os

folder = os.path.dirname(os.path.abspath(__file__))
libnccl = os.path.join(folder, "lib", "corale", "libnccl.so.2")  # for VLLM_NCCL_SO_PATH and the like
include = os.path.join(folder, "include")
pkgconfig = os.path.join(folder, "lib", "pkgconfig")
