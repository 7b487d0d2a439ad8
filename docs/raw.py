#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The measurements that tables and plots of docs are made from, as one file, docs/raw.tar.xz.

Usage: docs/raw.py unpack    into docs/raw, unless that is there
       docs/raw.py pack      docs/raw as it is now. Needs Python 3 only.
"""

import os
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER, PACKED = os.path.join(HERE, "raw"), os.path.join(HERE, "raw.tar.xz")


def unpack():
    if not os.path.isdir(FOLDER):
        with tarfile.open(PACKED) as packed:
            packed.extractall(HERE)


def plain(info):
    """The same bytes from the same files, whoever packs them."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode = 0o755 if info.isdir() else 0o644
    return info


def pack():
    with tarfile.open(PACKED + ".new", "w:xz", preset=9) as packed:
        packed.add(FOLDER, "raw", filter=plain)
    os.replace(PACKED + ".new", PACKED)


if __name__ == "__main__":
    if sys.argv[1:] not in (["unpack"], ["pack"]):
        sys.exit(__doc__)
    (unpack if sys.argv[1] == "unpack" else pack)()
