#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two hosts on one machine: network namespaces with host names of their own, joined by a bridge that carries
# the launcher and MPI, and by a second veth pair, data0 on both sides, that carries nothing but UCX.
#
#   namespaces.sh run [mpirun options] PROGRAM [args]   ranks by host: -n 4 puts two on each
#   namespaces.sh shell HOST COMMAND...                 COMMAND inside nodea or nodeb (its peer: PEER_ADDRESS)
#   namespaces.sh both SCRIPT                           SCRIPT here, with `on HOST COMMAND...` as a function
#   namespaces.sh test                                  TAP: what must hold over two hosts, and with the link cut
#
# Leaves nothing behind. Where the kernel forbids namespaces: "1..0 # SKIP" and exit status 0 (test), 77 (others).
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@"
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${top_builddir:-$PWD}
mpirun=${MPIRUN:-mpirun}
tag=co$$
net=10.$((64 + $$ % 120)).$(($$ / 120 % 250))
data=10.$((64 + $$ % 120)).$(($$ / 120 % 250 + 1))
state=

skip() { # REASON
	echo "1..0 # SKIP $1"
	case $verb in test) exit 0 ;; *) exit 77 ;; esac
}

clean() {
	trap - EXIT
	for host in nodea nodeb; do
		for pid in $(ip netns pids "$tag$host" 2>/dev/null); do
			kill -9 "$pid" 2>/dev/null
		done
		ip netns del "$tag$host" 2>/dev/null
	done
	ip link del "$tag" 2>/dev/null
	[ -n "$state" ] && rm -rf "$state"
}

# What the launcher runs in the place of ssh: AGENT [-x] HOST COMMAND... A private /sys shows the namespace's own
# devices; a private IPC namespace and host name keep UCX and MPI from taking the other host for their own.
write_agent() {
	cat >"$state/agent" <<-'AGENT'
		#!/bin/sh
		[ "$1" = -x ] && shift
		host=$1
		shift
		exec nsenter --net="/run/netns/$NAMESPACE_TAG$host" \
			unshare --uts --ipc --mount --propagation unchanged \
			sh -c 'mount -t sysfs sysfs /sys && hostname "$0" && exec sh -c "$*"' "$host" "$@"
	AGENT
	chmod +x "$state/agent"
	export NAMESPACE_TAG=$tag
}

connect() { # HOST, the last byte of its addresses
	local host=$1 number=$2
	ip netns add "$tag$host" &&
		ip link add "$tag$number" type veth peer name ctl0 netns "$tag$host" &&
		ip link set "$tag$number" master "$tag" up &&
		ip -n "$tag$host" addr add "$net.$number/24" dev ctl0 &&
		ip -n "$tag$host" link set lo up && ip -n "$tag$host" link set ctl0 up
}

# UCX leaves out a device that is not running yet.
await_link() { # HOST
	local try
	for try in $(seq 100); do
		ip -n "$tag$1" link show data0 | grep -q 'state UP' && return 0
		sleep 0.1
	done
	return 1
}

up() {
	[ "$(id -u)" = 0 ] || skip "network namespaces need root"
	for tool in ip nsenter unshare; do
		command -v $tool >/dev/null || skip "$tool is not installed"
	done
	trap clean EXIT
	trap 'exit 143' TERM
	trap 'exit 130' INT
	state=$(mktemp -d)
	{
		ip link add "$tag" type bridge && ip addr add "$net.1/24" dev "$tag" && ip link set "$tag" up &&
			connect nodea 2 && connect nodeb 3 &&
			ip -n "${tag}nodea" link add data0 type veth peer name data0 netns "${tag}nodeb" &&
			ip -n "${tag}nodea" addr add "$data.2/24" dev data0 &&
			ip -n "${tag}nodeb" addr add "$data.3/24" dev data0 &&
			ip -n "${tag}nodea" link set data0 up && ip -n "${tag}nodeb" link set data0 up
	} 2>"$state/why" || skip "namespaces are not permitted: $(head -1 "$state/why")"
	await_link nodea && await_link nodeb || skip "the data link does not come up"
	write_agent
	"$state/agent" nodea true 2>"$state/why" || skip "namespaces cannot be entered: $(head -1 "$state/why")"
}

on() { # HOST COMMAND...
	local host=$1 other=3
	shift
	[ "$host" = nodea ] || other=2
	PEER_ADDRESS=$data.$other nsenter --net="/run/netns/$tag$host" unshare --uts --ipc --mount \
		--propagation unchanged sh -c 'mount -t sysfs sysfs /sys && hostname "$0" && exec "$@"' "$host" "$@"
}

ranks() { # mpirun options, program, args
	OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
		CORALE_NET_DEVICES=${CORALE_NET_DEVICES-data0} timeout -k 5 "${CORALE_TEST_TIMEOUT:-300}" "$mpirun" --mca plm_rsh_agent "$state/agent" \
		--mca oob_tcp_if_include "$net.0/24" --mca btl_tcp_if_include "$net.0/24" --mca btl self,vader,tcp \
		--bind-to none --map-by ppr:${PER_NODE:-2}:node --host nodea:8,nodeb:8 "${exports[@]}" "$@"
}

# Variables of ours and of UCX travel to the ranks.
exports=()
collect_exports() {
	local name
	for name in $(compgen -e | grep -E '^(CORALE|UCX)_'; echo CORALE_NET_DEVICES); do
		exports+=(-x "$name")
	done
}

sent() { # HOST: bytes that left by its data link
	ip netns exec "$tag$1" cat /sys/class/net/data0/statistics/tx_bytes
}

verb=${1:-test}
[ $# -gt 0 ] && shift
case $verb in
run)
	up
	collect_exports
	ranks "$@"
	;;
shell)
	up
	on "$@"
	;;
both)
	up
	collect_exports
	. "$1"
	;;
test)
	up
	collect_exports
	. "$here/namespaces-test.sh" "$@"
	;;
*)
	sed -n '3,11s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
