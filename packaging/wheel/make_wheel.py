#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes Corale's wheel: corale_cu13 (corale_cu12) where there is nvcc, else corale_host, which is for host memory alone.

Links again what a build directory holds, so that the package may lie anywhere: run paths begin with $ORIGIN, UCX and hwloc are opened when they are needed, as
libnccl.so.2 does, and the kernels lie in one file that all libraries need. `pip wheel .` calls build_wheel.
"""
import argparse
import base64
import hashlib
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(TOP, "packaging", "wheel")
PROGRAMS = ["corale-run", "corale-info", "corale-plan"]
ARCHITECTURES = ["75", "80", "86", "89", "90", "100", "120"]  # as many as nvcc has
PTX = ["100", "90"]  # the first that nvcc has: for GPUs without an image, as 11.0 and what comes


def say(text):
    print("wheel: " + text, flush=True)


def fail(text):
    sys.exit("wheel: " + text)


def call(command, **more):
    if subprocess.run(command, **more).returncode:
        fail("failed: " + shlex.join(command))


def output(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, **more).stdout


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


VERSION = ".".join(re.search("^#define CORALE_VERSION_%s ([0-9]+)" % part, read(TOP, "include/corale.h"), re.M).group(1)
                   for part in ("MAJOR", "MINOR", "PATCH"))


# ---- Build directories

class Build:
    """A build directory: what its makefile says, and what it has made."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        if not os.path.exists(self.path("Makefile")):
            fail(folder + " has no Makefile: expected a build directory of Corale")
        names = ["CC", "CFLAGS", "DEFS", "AM_CPPFLAGS", "AM_CFLAGS", "AM_LDFLAGS", "SYSTEM_LIBS", "CUDA_LIBS", "MPI_LIBS", "NVCC",
                 "libcorale_pmpi_la_OBJECTS", "libcorale_mpi_la_OBJECTS", "libdoor_la_OBJECTS", "libkernels_la_OBJECTS",
                 "examples_corale_plan_OBJECTS", "examples_corale_info_OBJECTS", "nccl_glue_corale_nodes_OBJECTS"]
        rule = "print-variables:\n" + "".join("\t@echo 'value %s=$(%s)'\n" % (name, name) for name in names)
        text = output(["make", "-s", "--no-print-directory", "-C", self.folder, "-f", "Makefile", "-f", "-", "print-variables"], input=rule)
        self.values = dict(line[6:].split("=", 1) for line in text.splitlines() if line.startswith("value "))

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def words(self, name):
        return shlex.split(self.values[name])

    def objects(self, name, like=""):
        """Objects of a library or program, by the name of its list."""
        found = []
        for word in self.words(name):
            folder, file = os.path.split(word)
            if file.endswith(".lo"):
                word = os.path.join(folder, ".libs", file[:-3] + ".o")
            if re.search(like, file):
                found.append(self.path(word))
        return found

    def archive(self, name):
        return self.path(".libs", name + ".a")

    def mpi(self):
        """The name of its MPI by the name of the library: a door is for one of them."""
        if not os.path.exists(self.path(".libs/libcorale_pmpi.so")) and not os.path.exists(self.objects("libcorale_pmpi_la_OBJECTS")[0]):
            return None
        return "mpich" if "-lmpich" in self.words("MPI_LIBS") else "openmpi"


def configure(folder, options):
    if not os.path.exists(os.path.join(TOP, "configure")):
        call(["autoreconf", "-fi"], cwd=TOP)
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, "Makefile")):
        call([os.path.join(TOP, "configure"), "--silent", *options], cwd=folder, stdout=subprocess.DEVNULL)


def make(folder, jobs, targets):
    call(["make", "-s", "-j%d" % jobs, "-C", folder, *targets], stdout=subprocess.DEVNULL)


def find_nvcc():
    return shutil.which("nvcc", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")


def cuda_options(nvcc):
    known = output([nvcc, "--list-gpu-arch"]).replace("compute_", "").split()
    codes = [(a, "sm_" + a) for a in ARCHITECTURES if a in known] + [(a, "compute_" + a) for a in PTX if a in known][:1]
    return ["--with-cuda", "NVCC_GENCODE=" + " ".join("-gencode arch=compute_%s,code=%s" % code for code in codes)]


def make_builds(folder, jobs, with_cuda):
    """A build, and for each further MPI here the objects that depend on it."""
    wrappers = [name for name in ("mpicc.openmpi", "mpicc.mpich") if shutil.which(name)] or ["mpicc"] * bool(shutil.which("mpicc"))
    nvcc = with_cuda and find_nvcc()
    options = ["--disable-static"]
    if nvcc:
        options += cuda_options(nvcc)
    else:
        say("no nvcc: a wheel for host memory alone")
    first = os.path.join(folder, "cuda" if nvcc else "host")
    configure(first, options + ["--with-mpi=" + name for name in wrappers[:1]])
    say("building in " + first)
    make(first, jobs, ["all"])
    doors = []
    for wrapper in wrappers[1:]:
        second = first + "-" + wrapper.replace("mpicc.", "")
        configure(second, options + ["--with-mpi=" + wrapper])
        say("building %s's door in %s" % (wrapper, second))
        plain = Build(second)
        make(second, jobs, plain.words("libcorale_pmpi_la_OBJECTS") + plain.words("libcorale_mpi_la_OBJECTS"))
        doors.append(plain)
    return Build(first), doors


# ---- Linking

def link(build, to, objects, libraries=(), whole=(), archives=(), name=None, symbols=None, path=None):
    """A program, or with a name a shared library: of objects, all of some archives and parts of others."""
    os.makedirs(os.path.dirname(to), exist_ok=True)
    command = build.words("CC") + build.words("AM_LDFLAGS")
    if name:
        command += ["-shared", "-Wl,-soname," + name, "-Wl,-z,nodelete", "-Wl,--no-undefined", "-Wl,--version-script=" + os.path.join(TOP, symbols)]
    command += ["-o", to, "-Wl,-s", "-Wl,--enable-new-dtags", *objects, "-Wl,--whole-archive", *whole, "-Wl,--no-whole-archive",
                "-Wl,--start-group", *archives, "-Wl,--end-group", "-Wl,--as-needed", *libraries]
    if path:
        command += ["-Wl,-rpath," + path]
    call(command, cwd=build.folder)


def compile_again(build, source, to, flags):
    call(build.words("CC") + build.words("DEFS") + build.words("AM_CPPFLAGS") + ["-Iexamples", *flags] + build.words("AM_CFLAGS") + build.words("CFLAGS")
         + ["-c", "-o", to, os.path.join(TOP, source)], cwd=build.folder)


def take_kernels(path, to, symbol):
    """Copies an object of nvcc without its kernels: what names them names a symbol of another file. Returns the kernels."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    start, = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    name, kind, _, _, at, size, link_to, info, align, each = zip(*(struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i) for i in range(count)))
    section = {bytes(data[at[names] + n:data.index(0, at[names] + n)]).decode(): i for i, n in enumerate(name)}
    kernels, symbols = section[".nv_fatbin"], section[".symtab"]
    strings = link_to[symbols]
    here = [i for i in range(size[symbols] // 24) if struct.unpack_from("<H", data, at[symbols] + 24 * i + 6)[0] == kernels]
    for i in range(count):
        for entry in range(at[i], at[i] + size[i] * (kind[i] == 4), 24):  # SHT_RELA
            if struct.unpack_from("<I", data, entry + 12)[0] in here:
                struct.pack_into("<I", data, entry + 12, size[symbols] // 24)
    # The tables of symbols and of their names move to the end, each with one more: undefined, global.
    for i, more in ((symbols, struct.pack("<IBBHQQ", size[strings], 0x10, 0, 0, 0, 0)), (strings, symbol.encode() + b"\0")):
        data += bytes(-len(data) % 8)
        struct.pack_into("<QQ", data, start + 64 * i + 24, len(data), size[i] + len(more))
        data += data[at[i]:at[i] + size[i]] + more
    with open(to, "wb") as file:
        file.write(data)
    call(["objcopy", "-R", ".nv_fatbin", to])
    return bytes(data[at[kernels]:at[kernels] + size[kernels]])


def link_kernels(build, folder, scratch):
    """One file with all kernels, whose name no other build has; returns it, and copies of libcommon and libdoor that need it."""
    archives = [build.archive("libcommon"), build.archive("libdoor")]
    objects = build.objects("libkernels_la_OBJECTS") if build.values["NVCC"] else []
    if not objects:
        return [], archives
    kernels, text, digest = {}, "", hashlib.sha256()
    for path in objects:
        with open(path, "rb") as file:
            digest.update(file.read())
    digest = digest.hexdigest()[:8]
    for path in objects:
        symbol = "corale_kernels_%s_%s" % (digest, os.path.basename(path)[:-2])
        kernels[path] = os.path.join(scratch, os.path.basename(path))
        with open(kernels[path] + ".fatbin", "wb") as file:
            file.write(take_kernels(path, kernels[path], symbol))
        text += '.globl {0}\n.type {0},@object\n.balign 64\n{0}:\n.incbin "{1}.fatbin"\n.size {0},.-{0}\n'.format(symbol, kernels[path])
    source = os.path.join(scratch, "kernels.s")
    write('.section .nv_fatbin,"a"\n' + text + '.section .note.GNU-stack,"",@progbits\n', source)
    library = "libcorale_kernels-%s.so" % digest
    os.makedirs(folder, exist_ok=True)
    call(build.words("CC") + ["-shared", "-nostdlib", "-Wl,-z,relro,-z,now", "-Wl,-s", "-Wl,-soname," + library, "-o", os.path.join(folder, library), source])
    copies = []
    for archive in archives:
        copies.append(os.path.join(scratch, os.path.basename(archive)))
        shutil.copyfile(archive, copies[-1])
        members = output(["ar", "t", archive]).split()
        wrong = [path for path in objects if members.count(os.path.basename(path)) != 1]
        if wrong:
            fail("%s has not one member for each of %s" % (archive, wrong))
        call(["ar", "r", copies[-1], *kernels.values()])
    return [os.path.join(folder, library)], copies


def link_all(build, doors, package, scratch):
    """The libraries and programs of the package."""
    lib, doorfolder, bin_ = (os.path.join(package, *parts) for parts in (["lib"], ["lib", "corale"], ["bin"]))
    kernels, (common, door) = link_kernels(build, doorfolder, scratch)
    system = kernels + build.words("CUDA_LIBS") + build.words("SYSTEM_LIBS") + ["-lm"]
    modules = build.objects("libdoor_la_OBJECTS", r"-(module|ucx_find|transport_module|adapters_module)\.lo$")
    door = [door]  # with libboot and libcommon in it
    link(build, os.path.join(lib, "libcorale.so.0"), modules, system, whole=[common], name="libcorale.so.0", symbols="lib/corale.map", path="$ORIGIN/corale")
    link(build, os.path.join(doorfolder, "libnccl.so.2"), [], system, whole=door, name="libnccl.so.2", symbols="nccl_glue/nccl.map", path="$ORIGIN")
    link(build, os.path.join(doorfolder, "corale-nodes"), build.objects("nccl_glue_corale_nodes_OBJECTS"), system, archives=door, path="$ORIGIN")
    for module in ("corale_ucx.so", "corale_hwloc.so"):
        if os.path.exists(build.path(".libs", module)):
            call(["strip", "-o", os.path.join(doorfolder, module), build.path(".libs", module)])
    for other in doors:
        mpi = other.mpi()
        libraries = other.words("MPI_LIBS") + system
        name = "libcorale_pmpi_%s.so" % mpi
        link(build, os.path.join(doorfolder, name), other.objects("libcorale_pmpi_la_OBJECTS"), libraries, whole=[common], name=name,
             symbols="pmpi_glue/pmpi.map", path="$ORIGIN")
        link(build, os.path.join(lib, mpi, "libcorale_mpi.so.0"), other.objects("libcorale_mpi_la_OBJECTS"), [os.path.join(lib, "libcorale.so.0")] + libraries,
             name="libcorale_mpi.so.0", symbols="mpi_glue/corale_mpi.map", path="$ORIGIN/..")
    link(build, os.path.join(bin_, "corale-plan"), build.objects("examples_corale_plan_OBJECTS") + modules, system,
         archives=[build.archive("libplans"), common], path="$ORIGIN/../lib/corale")
    info = build.objects("examples_corale_info_OBJECTS", r"-info_(?!ucx|noucx)")
    for source, flags in (("info", ["-UHAVE_HWLOC"]), ("info_noucx", ["-DUCX_BY_MODULE"])):
        info.append(os.path.join(scratch, source + ".o"))
        compile_again(build, "examples/%s.c" % source, info[-1], flags)
    link(build, os.path.join(bin_, "corale-info"), info + modules, system, archives=[common], path="$ORIGIN/../lib/corale")


# ---- Files of the package

def write(text, *path, executable=False):
    to = os.path.join(*path)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    with open(to, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(to, 0o755 if executable else 0o644)


def fill_in(text, values):
    return re.sub("@([A-Za-z_]+)@", lambda match: values[match.group(1)], text)


def pkg_config(template, values, folder=None):
    """Programs find the libraries by their run path; a wrapper of MPI's compiler brings MPI's own flags."""
    text = fill_in(read(TOP, template), values)
    if folder:
        text = text.replace("-L${libdir}", "-L${libdir}/" + folder)
    return re.sub("^(Libs: -L)(\\S+)(.*)$", r"\1\2\3 -Wl,-rpath,\2", text, flags=re.M)


def write_texts(build, doors, package):
    lib, include = os.path.join(package, "lib"), os.path.join(package, "include")
    values = dict.fromkeys(("HWLOC_LIBS", "UCX_LIBS", "CUDA_LIBS", "SYSTEM_LIBS", "MPI_LIBS", "MPI_CFLAGS"), "")
    values.update(prefix="${pcfiledir}/../..", exec_prefix="${prefix}", libdir="${prefix}/lib", includedir="${prefix}/include", PACKAGE_VERSION=VERSION)
    write(pkg_config("corale.pc.in", values), lib, "pkgconfig", "corale.pc")
    for i, door in enumerate(doors):
        text = pkg_config("corale_mpi.pc.in", values, door.mpi())
        write(text, lib, "pkgconfig", "corale_mpi_%s.pc" % door.mpi())
        if i == 0:
            write(text, lib, "pkgconfig", "corale_mpi.pc")
        write("INPUT(-l:libcorale_mpi.so.0)\n", lib, door.mpi(), "libcorale_mpi.so")
    # A wheel has no links: the linker's names are scripts of its.
    write("INPUT(-l:libcorale.so.0)\n", lib, "libcorale.so")
    write("INPUT(-l:libnccl.so.2)\n", lib, "corale", "libnccl.so")
    run = fill_in(read(TOP, "nccl_glue/corale-run.in"), {"PACKAGE_VERSION": VERSION, "prefix": "", "exec_prefix": "", "libdir": '${0%/*}/../lib'})
    write(run, package, "bin", "corale-run", executable=True)
    for header in ["corale.h"] + ["corale_mpi.h"] * bool(doors):
        write(read(TOP, "include", header), include, header)
    for header in ("nccl.h", "nccl_device_host.h"):
        write(read(TOP, "nccl_glue", header), include, "corale", "nccl", header)
    for page in PROGRAMS:
        write(read(TOP, "docs", page + ".1"), package, "share", "man", "man1", page + ".1")
    write(read(HERE, "corale/__init__.py"), package, "__init__.py")


# ---- The wheel

def libraries_of(folder):
    """Paths of the ELF files below a folder."""
    for at, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(at, name), "rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield os.path.join(at, name)


def tag(package):
    """By the newest symbol of glibc that a file needs."""
    newest = max(int(minor) for path in libraries_of(package) for minor in re.findall(r"GLIBC_2\.(\d+)", output(["objdump", "-T", path])))
    return "py3-none-manylinux_2_%d_%s" % (newest, os.uname().machine)


def metadata(name, cuda):
    what = "GPUs and hosts, CUDA %s" % cuda if cuda else "host memory alone"
    return """Metadata-Version: 2.1
Name: %s
Version: %s
Summary: Collective operations on the memory of NVIDIA GPUs and of hosts, for NCCL and MPI programs (%s)
License: BSD-3-Clause
License-File: LICENSE
Requires-Python: >=3.7
Provides-Extra: ucx
Requires-Dist: libucx-cu%s>=1.19; extra == 'ucx'
Description-Content-Type: text/markdown

%s""" % (name, VERSION, what, cuda or 13, read(TOP, "docs", "install.md").split("## Debian packages")[0])


def pack(folder, to):
    """Zips a folder with a RECORD of its files. The times of files are one, so that equal files make equal wheels."""
    info = next(name for name in os.listdir(folder) if name.endswith(".dist-info"))
    record = info + "/RECORD"
    paths = sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names)
    lines = []
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in paths + [record]:
            entry = zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            if path == record:
                data, mode = ("\n".join(lines + [record + ",,"]) + "\n").encode(), 0o644
            else:
                with open(os.path.join(folder, path), "rb") as file:
                    data = file.read()
                mode = os.stat(os.path.join(folder, path)).st_mode & 0o777 | 0o644
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                lines.append("%s,sha256=%s,%d" % (path, digest, len(data)))
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)


def make_wheel(build, doors, to):
    cuda = None
    if build.values["NVCC"]:
        cuda = re.search(r"release (\d+)", output([build.values["NVCC"], "--version"])).group(1)
    name = "corale_cu" + cuda if cuda else "corale_host"
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "wheel")
        package = os.path.join(folder, "corale")
        link_all(build, doors, package, scratch)
        write_texts(build, doors, package)
        for program in PROGRAMS:
            write(read(HERE, "launcher"), folder, "%s-%s.data" % (name, VERSION), "scripts", program, executable=True)
        info = os.path.join(folder, "%s-%s.dist-info" % (name, VERSION))
        tags = tag(package)
        write(metadata(name, cuda), info, "METADATA")
        write("Wheel-Version: 1.0\nGenerator: corale %s\nRoot-Is-Purelib: false\nTag: %s\n" % (VERSION, tags), info, "WHEEL")
        write(read(TOP, "LICENSE"), info, "LICENSE")
        os.makedirs(to, exist_ok=True)
        path = os.path.join(to, "%s-%s-%s.whl" % (name, VERSION, tags))
        pack(folder, path)
        for file in sorted(libraries_of(package), key=os.path.getsize)[-3:]:
            say("%s: %.1f MB" % (os.path.relpath(file, package), os.path.getsize(file) / 1e6))
    say("%s: %.1f MB" % (path, os.path.getsize(path) / 1e6))
    return path


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """For pip (PEP 517). `pip wheel -C no-cuda=1 .` is --no-cuda."""
    builds = own_builds(len(os.sched_getaffinity(0)), "no-cuda" not in (config_settings or {}))
    return os.path.basename(make_wheel(*builds, wheel_directory))


def own_builds(jobs, with_cuda):
    build, others = make_builds(os.path.join(TOP, "build-wheel"), jobs, with_cuda)
    return build, [door for door in [build] + others if door.mpi()]


def main():
    parser = argparse.ArgumentParser(description="Makes Corale's wheel: corale_cu13 where there is nvcc, else corale_host.")
    parser.add_argument("-o", "--out", default=".", help="where the wheel is put (here)")
    parser.add_argument("--build", help="take this build directory, where `make all` has ended, and compile nothing; else build-wheel/ is built")
    parser.add_argument("--door", action="append", default=[], help="with --build: the build directory of another MPI, for its door")
    parser.add_argument("--no-cuda", action="store_true", help="for host memory alone, even if there is nvcc")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    if args.build:
        build = Build(args.build)
        doors = [door for door in [build] + [Build(folder) for folder in args.door] if door.mpi()]
    else:
        build, doors = own_builds(args.jobs, not args.no_cuda)
    make_wheel(build, doors, args.out)


if __name__ == "__main__":
    main()
