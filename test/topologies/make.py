#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the machines of this folder: make.py FOLDER. They are synthetic, with the few objects that hwloc needs to load them and that decide
which RDMA adapter a GPU uses, a host bridge a line. No comments: hwloc's own parser, for where it has no libxml2, refuses them. Ids of the DGX are those of the machine as people have printed it; the others are made up."""
import os
import sys


class Writer:
    def __init__(self):
        self.lines, self.depth, self.index = [], 0, 0

    def add(self, text):
        if self.depth > 2 or (text.startswith("</") and self.depth == 2):
            self.lines[-1] += text
        else:
            self.lines.append("  " * self.depth + text)

    def open(self, kind, close=False, **attributes):
        self.index += 1
        text = "".join(f' {k}="{v}"' for k, v in attributes.items())
        self.add(f'<object type="{kind}"{text} gp_index="{self.index}"' + ("/>" if close else ">"))
        self.depth += 0 if close else 1

    def info(self, name, value):
        self.add(f'<info name="{name}" value="{value}"/>')

    def close(self):
        self.depth -= 1
        self.add("</object>")


def sets(first, count):
    mask = f"0x{((1 << count) - 1) << first:08x}"
    return {"cpuset": mask, "complete_cpuset": mask, "nodeset": mask, "complete_nodeset": mask}


def bus_of(pci):
    return int(pci.split(":")[-2], 16)


def buses(child):
    """All buses below a child."""
    if "at" in child:
        return [child["secondary"]] + [b for c in child["below"] for b in buses(c)]
    return [bus_of(child["pci"])]


def write_child(w, child, depth):
    if "at" in child:
        below = buses(child)
        w.open("Bridge", bridge_type="1-1", depth=depth, bridge_pci=f"{child['domain']}:[{min(below):02x}-{max(below):02x}]",
               pci_busid=child["at"], pci_type="0604 [1000:c030] [1000:100b] b0", pci_link_speed="63.015385")
        for c in child["below"]:
            write_child(w, c, depth + 1)
        w.close()
    elif child["name"]:
        w.open("PCIDev", pci_busid=child["pci"], pci_type="0207 [15b3:1021] [15b3:0041] 00", pci_link_speed="63.015385")
        write_adapter(w, child["name"], child["states"])
        w.close()
    else:
        w.open("PCIDev", close=True, pci_busid=child["pci"], pci_type="0302 [10de:2330] [10de:16c1] a1", pci_link_speed="63.015385")


def write_adapter(w, name, states):
    w.open("OSDev", name=name, osdev_type="3")
    for i, state in enumerate(states):
        w.info(f"Port{i + 1}State", state)
    w.close()


def write(folder, name, packages, adapters=()):
    """packages: of each its host bridges, a list of children each; adapters: outside of the PCI tree."""
    w, n = Writer(), len(packages)
    w.open("Machine", os_index=0, **sets(0, n), allowed_cpuset=sets(0, n)["cpuset"], allowed_nodeset=sets(0, n)["cpuset"])
    w.info("Origin", "synthetic: make.py")
    for p, bridges in enumerate(packages):
        w.open("Package", os_index=p, **sets(p, 1))
        w.open("NUMANode", close=True, os_index=p, **sets(p, 1), local_memory=1 << 30)
        w.open("PU", close=True, os_index=p, **sets(p, 1))
        for children in bridges:
            first = children[0].get("at") or children[0]["pci"]
            domain = first.split(":")[0]
            all_buses = [bus_of(c.get("at") or c["pci"]) for c in children] + [b for c in children for b in buses(c)]
            w.open("Bridge", bridge_type="0-1", depth=0, bridge_pci=f"{domain}:[{min(all_buses):02x}-{max(all_buses):02x}]")
            for child in children:
                write_child(w, child, 1)
            w.close()
        w.close()
    for adapter in adapters:
        write_adapter(w, adapter, ["4"])
    w.close()
    with open(os.path.join(folder, name + ".xml"), "w") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'
                   '<topology version="2.0">\n' + "\n".join(w.lines) + "\n</topology>\n")


def gpu(pci):
    return {"pci": pci, "name": None}


def nic(pci, name, *states):
    return {"pci": pci, "name": name, "states": states or ("4",)}


def bridge(domain, at, secondary, *below):
    return {"domain": domain, "at": f"{domain}:{at}", "secondary": secondary, "below": list(below)}


def port(at, device):
    """A port, of a root or a switch, with one device."""
    domain = device["pci"].split(":")[0]
    return bridge(domain, at, bus_of(device["pci"]), device)


def switch(bus, *devices):
    """A root port at bus, a switch on the next one, its ports on the one after that."""
    return bridge("0000", f"{bus:02x}:01.0", bus + 1, inner_switch(bus + 1, *devices))


def inner_switch(bus, *devices):
    ports = [d if "at" in d else port(f"{bus + 1:02x}:{i:02x}.0", d) for i, d in enumerate(devices)]
    return bridge("0000", f"{bus:02x}:00.0", bus + 1, *ports)


def main(folder):
    pairs = [(0x15, 0x18, 0x1b, 0), (0x3d, 0x40, 0x43, 3), (0x4c, 0x4f, 0x52, 4), (0x5b, 0x5e, 0x61, 5),
             (0x97, 0x9a, 0x9d, 6), (0xbd, 0xc0, 0xc3, 9), (0xcb, 0xce, 0xd1, 10), (0xd9, 0xdc, 0xdf, 11)]
    dgx = [[switch(bus, nic(f"0000:{n:02x}:00.0", f"mlx5_{i}"), gpu(f"0000:{g:02x}:00.0"))] for bus, n, g, i in pairs]
    storage = [[bridge("0000", f"{b:02x}:01.0", b + 1, nic(f"0000:{b + 1:02x}:00.0", f"mlx5_{i}"),
                       nic(f"0000:{b + 1:02x}:00.1", f"mlx5_{i + 1}", "1"))] for b, i in ((0x28, 1), (0xa9, 7))]
    write(folder, "dgx-h100", [dgx[:1] + storage[:1] + dgx[1:4], dgx[4:5] + storage[1:] + dgx[5:]])

    hgx = [[switch(b, gpu(f"0000:{b + 3:02x}:00.0"), gpu(f"0000:{b + 4:02x}:00.0"), nic(f"0000:{b + 5:02x}:00.0", f"mlx5_{i}"))]
           for i, b in enumerate((0x10, 0x30, 0x90, 0xb0))]
    write(folder, "hgx-4-adapters", [hgx[:2], hgx[2:]])

    flat = [[gpu(f"{i + 1:04x}:00:00.0")] for i in range(8)] + [[nic(f"01{i + 1:02x}:00:00.0", f"mlx5_ib{i}")] for i in range(8)]
    write(folder, "cloud-8-adapters", [flat])

    write(folder, "workstation", [[[port("00:01.0", gpu("0000:01:00.0")),
                                    port("00:02.0", nic("0000:02:00.0", "mlx5_0"))]]])

    # for the adapter of test/fake_verbs and the GPU of ranks_gpudirect
    write(folder, "fake-near", [[[switch(0x10, gpu("0000:13:00.0"), nic("0000:14:00.0", "fake0"))]]])
    write(folder, "fake-far", [[[switch(0x10, gpu("0000:13:00.0"))]], [[switch(0x80, nic("0000:83:00.0", "fake0"))]]])

    near = [switch(0x10, gpu("0000:13:00.0"), gpu("0000:14:00.0"), nic("0000:15:00.0", "mlx5_0"), nic("0000:16:00.0", "mlx5_1"))]
    far = [switch(0x80, gpu("0000:83:00.0"), gpu("0000:84:00.0"))]
    write(folder, "adapters-on-one-socket", [[near], [far]])

    inner = bridge("0000", "12:01.0", 0x20, inner_switch(0x20, gpu("0000:22:00.0"), gpu("0000:23:00.0")))
    write(folder, "two-switches", [[[switch(0x10, nic("0000:13:00.0", "mlx5_0", "4", "4"), inner)]]])

    own = bridge("0000", "12:01.0", 0x20, inner_switch(0x20, nic("0000:22:00.0", "mlx5_0")))
    write(folder, "adapter-with-switch", [[[switch(0x10, gpu("0000:13:00.0"), own)]]])

    roots = [[port(f"{b:02x}:{i:02x}.0", d(f"0000:{b + 1 + i:02x}:00.0", *n)) for i, (d, n) in
              enumerate(((gpu, ()), (gpu, ()), (nic, (f"mlx5_{k}",)), (nic, (f"mlx5_{k + 1}",))))] for b, k in ((0x10, 0), (0x80, 2))]
    write(folder, "root-ports", [[roots[0]], [roots[1]]])

    fake = nic("0000:13:00.0", "fake0")  # the adapter of test/fake_verbs
    write(folder, "fake-verbs", [[[switch(0x10, fake, gpu("0000:14:00.0"))]], [[switch(0x80, gpu("0000:83:00.0"))]]])

    write(folder, "no-pci", [[]], ["mlx5_0", "mlx5_1"])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))
