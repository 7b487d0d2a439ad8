#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Where NCCL's interface of Corale can't make a communicator, every rank says so within 10 s: whom it is about, why, and how to run without
# Corale. Ranks that die while it is made, another user's, hosts that do not reach each other. Ranks on two hosts and in two containers (network
# namespaces) that do. TAP.
# namespaces.sh runs the second half: it includes this file, with `on HOST COMMAND...` and $tag.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@"
set -u
here=${NCCL_HOSTS_HERE:-$(cd "$(dirname "$0")" && pwd)}
build=${top_builddir:-$PWD}
program=$build/test/nccl/nccl_rank
without="start it without corale-run"
number=${NCCL_HOSTS_NUMBER:-0}

result() # status, description, file with the reasons
{
	number=$((number + 1))
	if [ "$1" = 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; fi
	[ "$1" = 0 ] || head -n 20 "$3" | sed 's/^/# /'
}

# start RANK COMMAND...: a rank in the background. Its output is $scratch/out.RANK, its log $scratch/log.RANK.
start()
{
	local rank=$1
	shift
	timeout -k 2 25 "$@" >"$scratch/out.$rank" 2>"$scratch/log.$rank" </dev/null &
	started+=($!)
}
fresh() # a new id, for new ranks
{
	rm -f "$scratch"/out.* "$scratch"/log.* "$scratch"/id*
	started=()
}
await()
{
	wait "${started[@]}" 2>/dev/null
	cat "$scratch"/out.* "$scratch"/log.* >"$scratch/all"
}
# expect DESCRIPTION RANKS PATTERN...: each rank failed within 10 s, and its last error has every pattern (grep -E).
expect()
{
	local description=$1 ranks=$2 rank pattern wrong=0 late=0
	shift 2
	for rank in $ranks; do
		awk '/ code [1-9]/ { found = 1; late = $6 > 10 } END { exit !found ? 1 : late ? 2 : 0 }' "$scratch/out.$rank"
		case $? in 1) wrong=1 ;; 2) late=1 ;; esac
		for pattern in "$@" "$without"; do
			grep -qE "$pattern" "$scratch/out.$rank" && continue
			echo "rank $rank lacks: $pattern" >>"$scratch/all"
			wrong=1
		done
		grep -q "$without" "$scratch/log.$rank" || wrong=1
	done
	[ $wrong = 1 ] || [ $late = 0 ] || echo "# a limit of time alone" # test/run/run-tests
	result $((wrong | late)) "$description" "$scratch/all"
}

# ---- On one host

alone()
{
	fresh
	for rank in 0 1 2; do start $rank "$program" $rank 3 "$scratch/id"; done
	await
	[ "$(cat "$scratch"/out.* | grep -c ' code 0 ')" = 3 ]
	result $? "three ranks of one host" "$scratch/all"
	# While the windows are made, before and after a rank has its peers' descriptors.
	for call in memfd_create sendmsg process_vm_readv; do
		fresh
		start 0 "$program" 0 3 "$scratch/id"
		start 1 "$program" 1 3 "$scratch/id"
		start 2 "$program" 2 3 "$scratch/id" $call
		await
		expect "a rank dies in $call" "0 1" "rank 2( \(process [0-9]+ on [^ ]+\))? (has died|does not listen)"
	done
	# As where a container forbids it.
	fresh
	start 0 "$program" 0 3 "$scratch/id"
	start 1 "$program" 1 3 "$scratch/id"
	start 2 "$program" 2 3 "$scratch/id" no-memfd_create
	await
	expect "a rank must not call memfd_create: that rank" 2 "Operation not permitted"
	expect "a rank must not call memfd_create: the others" "0 1" \
		"rank 2 could not map the windows of its node on host [^ ]+: .*Operation not permitted"
	fresh
	start 0 env CORALE_MODULES="$scratch" "$program" 0 3 "$scratch/id"
	start 1 env CORALE_MODULES="$scratch" "$program" 1 3 "$scratch/id"
	start 2 env CORALE_MODULES="$scratch" "$program" 2 3 "$scratch/id" no-sendmsg
	await
	expect "a rank must not call sendmsg, and there is no UCX" "0 1 2" \
		"ranks on several nodes need UCX"
	without_streams
	fresh
	start 1 "$program" 1 3 "$scratch/id" memfd_create
	start 2 "$program" 2 3 "$scratch/id"
	start 0 "$program" 0 3 "$scratch/id" memfd_create
	await
	expect "two ranks die, the maker of the id among them" "2" "rank [01] \(process [0-9]+ on [^ ]+\) has died"
	fresh
	start 0 "$program" 0 3 "$scratch/id"
	start 1 "$program" 1 3 "$scratch/id"
	sleep 1
	kill -9 $(cat "/proc/${started[1]}/task/${started[1]}/children") # the rank: the only child of timeout
	await
	expect "a rank dies while another has not come" "0" "rank 1 \(process [0-9]+ on [^ ]+\) has died"
	another_user
}

# Lines of the log go nowhere, and nowhere else: no descriptor of the library is that of a stream. Nor does one end a rank.
without_streams()
{
	local closed rank pid wrong=0
	for closed in "2>&-" ">&- 2>&-" "<&- >&- 2>&-" "NCCL_DEBUG_FILE=/dev/stderr 2> >(exit)"; do
		fresh
		for rank in 0 1 2; do
			start $rank env NCCL_DEBUG=INFO CORALE_DEBUG=info "$BASH" -c "$closed exec \"\$@\"" - "$program" $rank 3 "$scratch/id"
		done
		for pid in "${started[@]}"; do wait "$pid" || wrong=1; done
	done
	cat "$scratch"/out.* "$scratch"/log.* >"$scratch/all"
	result $wrong "ranks without standard streams, or with ones that nobody reads" "$scratch/all"
}

another_user()
{
	local description="ranks of two users"
	chmod 711 "$scratch"
	if ! setpriv --reuid 65534 --clear-groups "$program" 2>&1 | grep -q usage; then
		number=$((number + 1))
		echo "ok $number - $description # SKIP this user can't start a program as another"
		return
	fi
	fresh
	start 0 env CORALE_MODULES="$scratch" "$program" 0 2 "$scratch/id"
	start 1 setpriv --reuid 65534 --clear-groups env CORALE_MODULES="$scratch" "$program" 1 2 "$scratch/id"
	await
	expect "$description, and there is no UCX" "0 1" "ranks on several nodes need UCX"
}

# ---- On two hosts

boot_id=/proc/sys/kernel/random/boot_id
# As `on`, with a boot id of its own, as another machine has.
machine() # HOST COMMAND...
{
	local host=$1
	shift
	echo "$host" >"$scratch/boot.$host"
	on "$host" sh -c 'mount --bind "$0" '$boot_id' && exec "$@"' "$scratch/boot.$host" "$@"
}
# In the network namespace of HOST, under the name of this host.
container() # HOST COMMAND...
{
	nsenter --net="/run/netns/$tag$1" unshare --mount --propagation unchanged \
		sh -c 'mount -t sysfs sysfs /sys && exec "$@"' - "${@:2}"
}
ranks_on() # machine|on|container
{
	export NCCL_SOCKET_IFNAME=ctl0
	fresh
	for rank in 0 1; do start $rank "$BASH" -c '"$@"' - "$1" nodea "$program" $rank 4 "$scratch/id"; done
	for rank in 2 3; do start $rank "$BASH" -c '"$@"' - "$1" nodeb "$program" $rank 4 "$scratch/id"; done
	await
}
one_on_each() # machine|on|container: rank 0, which others do not reach, gives up after 8 s
{
	fresh
	start 0 env CORALE_NCCL_INIT_TIMEOUT=8 "$BASH" -c '"$@"' - "$1" nodea "$program" 0 2 "$scratch/id"
	start 1 "$BASH" -c '"$@"' - "$1" nodeb "$program" 1 2 "$scratch/id"
	await
}

# Two ranks on each host call on and on, over data0, until it is cut.
cut_link()
{
	local rank wrong=0
	export NCCL_SOCKET_IFNAME=ctl0
	fresh
	for rank in 0 1 2 3; do
		start $rank env CORALE_NET_DEVICES=data0 CORALE_MODULES="$build/.libs" CORALE_NCCL_TIMEOUT=4 "$BASH" -c '"$@"' - \
			machine $([ $rank -lt 2 ] && echo nodea || echo nodeb) "$program" $rank 4 "$scratch/id" on
	done
	for rank in $(seq 100); do
		[ "$(cat "$scratch"/out.* | grep -c ' calls$')" = 4 ] && break
		sleep 0.1
	done
	ip -n "${tag}nodeb" link set data0 down
	await
	ip -n "${tag}nodeb" link set data0 up
	await_link nodea
	for rank in 0 1 2 3; do # 2 s before the line, 4 without progress before the end
		awk '/ took / && $6 >= 2 && $6 <= 8 { took = 1 } / code [1-9].*all_reduce\(.*rank [0-3]/ { told = 1 }
			END { exit !(took && told) }' "$scratch/out.$rank" || wrong=1
	done
	result $wrong "the link between hosts is cut: every rank's call ends, and names rank and call" "$scratch/all"
	cat "$scratch"/log.* | grep -qE 'WARN.*rank [01]: rank [23] \(process [0-9]+ of host nodeb\) silent for [23]\.[0-9] s: this rank waits for it in all_reduce\(.*, call [0-9]+; it does not answer: its link is cut' &&
		cat "$scratch"/log.* | grep -qE 'WARN.*rank [23]: rank [01] \(process [0-9]+ of host nodea\) silent for [23]\.[0-9] s: .*its link is cut'
	result $? "the link between hosts is cut: a line on each names the other's rank" "$scratch/all"
}

# torchrun, as far as its options and variables are those of examples/nccl/README.md.
stand_in_for_torchrun()
{
	mkdir -p "$scratch/bin"
	cat >"$scratch/bin/torchrun" <<-'TORCHRUN'
		#!/bin/sh
		nodes=$2 each=$4 node=$6 pids=
		export MASTER_ADDR=$8 MASTER_PORT=${10} WORLD_SIZE=$(($2 * $4))
		shift 10
		for LOCAL_RANK in $(seq 0 $((each - 1))); do
			export LOCAL_RANK RANK=$((node * each + LOCAL_RANK))
			python3 "$@" &
			pids="$pids $!"
		done
		status=0
		for pid in $pids; do wait "$pid" || status=1; done
		exit $status
	TORCHRUN
	chmod +x "$scratch/bin/torchrun"
}
# commands LAUNCHER: those of examples/nccl/README.md, a line each, with the addresses of the two hosts.
commands()
{
	sed -n "/^<!-- run: $1 -->/,/^<!-- end -->/s/^    //p" "$here/../../examples/nccl/README.md" | sed "s/hosta:2,hostb:2/nodea:2,nodeb:2/; s/hosta/$net.2/g"
}
summed() # DESCRIPTION
{
	# a launcher may put a line of one rank before the end of another's
	[ "$(grep -o 'rank [0-3] of 4 on node[ab]: sum 6, expected 6' "$scratch/all" | wc -l)" = 4 ]
	result $? "$1" "$scratch/all"
}
# The commands of examples/nccl/README.md.
readme()
{
	local rank=0 line python
	command -v python3 >/dev/null || return
	python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null) || return
	"$build/nccl_glue/corale-run" "$python" -c "" 2>/dev/null || return # a sanitizer's build
	stand_in_for_torchrun
	ln -s "$python" "$scratch/bin/python3" # not a script that chooses one
	export NCCL_SOCKET_IFNAME=ctl0 CORALE_MODULES="$build/.libs"
	local PATH=$scratch/bin:$build/nccl_glue:$PATH
	fresh
	while read -r line; do
		start $rank "$BASH" -c '"$@"' - machine $([ $rank = 0 ] && echo nodea || echo nodeb) sh -c "cd '$here/../../examples/nccl' && $line"
		rank=$((rank + 1))
	done < <(commands torchrun)
	await
	summed "torchrun on two hosts, as examples/nccl/README.md has it"
	command -v "$mpirun" >/dev/null && "$mpirun" --version 2>/dev/null | grep -q 'Open MPI' || return
	fresh
	start 0 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent="$state/agent" OMPI_MCA_oob_tcp_if_include="$net.0/24" \
		sh -c "cd '$here/../../examples/nccl' && $(commands mpirun | sed "s,^mpirun ,'$mpirun' -x PATH -x NCCL_SOCKET_IFNAME -x CORALE_MODULES -x CORALE_DEBUG ,")"
	await
	summed "mpirun on two hosts, as examples/nccl/README.md has it"
}

apart()
{
	local name maker where
	name=$(hostname)
	export -f machine container on
	export tag scratch boot_id data
	for where in machine on container; do
		[ -f "$build/.libs/corale_ucx.so" ] || break
		CORALE_MODULES=$build/.libs ranks_on $where
		[ "$(cat "$scratch"/out.* | grep -c ' code 0 ')" = 4 ]
		result $? "two ranks on each of two: $where" "$scratch/all"
	done
	[ ! -f "$build/.libs/corale_ucx.so" ] || cut_link
	[ ! -f "$build/.libs/corale_ucx.so" ] || [ ! -f "$build/.libs/libnccl.so.2" ] || readme
	CORALE_MODULES=$scratch ranks_on machine
	expect "two hosts without the module of UCX" "0 1 2 3" 'ranks on several nodes need UCX: '

	export NCCL_SOCKET_IFNAME=lo
	one_on_each machine
	expect "the id is of lo: the rank on the other host" 1 'rank 1 on host nodeb: nobody listens at 127\.0\.0\.1:[0-9]+' \
		'made on host nodea, at that loopback address'
	expect "the id is of lo: the rank on its host" 0 'waited 8 s for rank 1 of 2' 'Nothing has come from there to 127\.0\.0\.1:[0-9]+ on host nodea'
	one_on_each container
	expect "the id is of lo, one name: the rank in the other container" 1 "made at that loopback address on host $name" \
		'with networks of their own'

	export NCCL_SOCKET_IFNAME=data0
	maker=$data.2
	ip -n "${tag}nodeb" neigh replace "$maker" lladdr 02:00:00:00:00:01 dev data0
	one_on_each machine
	expect "what one rank sends is lost: that rank" 1 "rank 1 on host nodeb cannot connect to $maker:[0-9]+: no answer; the process on host nodea"
	expect "what one rank sends is lost: the other" 0 'waited 8 s for rank 1 of 2' 'on host nodea: the processes .* can.t reach that address'
	ip -n "${tag}nodeb" neigh del "$maker" dev data0
	ip -n "${tag}nodeb" addr del "$data.3/24" dev data0
	fresh
	start 0 env CORALE_NCCL_INIT_TIMEOUT=8 "$BASH" -c '"$@"' - machine nodea "$program" 0 2 "$scratch/id"
	start 1 env NCCL_SOCKET_IFNAME=ctl0 "$BASH" -c '"$@"' - machine nodeb "$program" 1 2 "$scratch/id"
	await
	expect "one rank has no route to the other host" 1 "rank 1 on host nodeb cannot connect to $maker:[0-9]+: Network is unreachable"
}

export CORALE_NCCL_DEVICE=host CORALE_DEBUG=warn
if [ -n "${NCCL_HOSTS_NUMBER:-}" ]; then # within namespaces.sh, which removes $state
	scratch=$state
	apart
	exit 0
fi
[ -x "$program" ] || {
	echo "1..0 # SKIP test/nccl/nccl_rank is not built"
	exit 0
}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
export NCCL_SOCKET_IFNAME=lo
alone
NCCL_HOSTS_HERE=$here NCCL_HOSTS_NUMBER=$number "$here/../ranks/namespaces.sh" both "$0" >"$scratch/apart" 2>"$scratch/errors"
reason=$(sed -n 's/^1\.\.0 # SKIP //p' "$scratch/apart")
if [ -n "$reason" ]; then
	number=$((number + 1))
	echo "ok $number - two hosts # SKIP $reason"
else
	cat "$scratch/apart"
	number=$((number + $(grep -cE '^(not )?ok ' "$scratch/apart")))
	[ "$(grep -cE '^(not )?ok ' "$scratch/apart")" -ge 9 ]
	result $? "every case of two hosts ran" "$scratch/errors"
fi
echo "1..$number"
