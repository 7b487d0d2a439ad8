# SPDX-License-Identifier: BSD-3-Clause
# Part of namespaces.sh: what must hold between two hosts.
count=0
status=0
tell() { # STATUS TEXT [FILE with the reasons]
	count=$((count + 1))
	if [ "$1" = 0 ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		[ -z "${3:-}" ] || grep -E 'WARN|ERROR' "$3" | head -n 8 | sed 's/^/# /'
		status=1
	fi
}

# Passes on what a program says of its own cases; each line that it should say but does not is a failure.
retell() { # FILE CASES
	local line cases=0
	while IFS= read -r line; do
		case $line in
		ok*) tell 0 "${line#*- }" ;;
		"not ok"*) tell 1 "${line#*- }" ;;
		*)
			echo "# $line"
			continue
			;;
		esac
		cases=$((cases + 1))
	done <"$1"
	[ $cases -ge "$2" ]
	tell $? "$cases cases were told, at least $2 expected"
}

fault=${TRANSPORT_FAULT:-$build/test/ranks/transport_fault}
[ -x "$fault" ] || skip "this build has no MPI"
"$fault" available || skip "this build has no UCX"

PER_NODE=1 ranks -n 2 sh -c 'hostname' 2>/dev/null | sort | tr '\n' ' ' >"$state/hosts"
[ "$(cat "$state/hosts")" = "nodea nodeb " ]
tell $? "two hosts with names of their own"

before=$(sent nodea)
PER_NODE=1 ranks -n 2 "${RANKS_TRANSPORT:-$build/test/ranks/ranks_transport.mpi}" >"$state/cases" 2>"$state/errors"
tell $? "every case of the transports, a rank on each host"
sed 's/^/# /' "$state/errors" | grep -v "corale: ERROR.*expected\|a control message of" | tail -20
[ $(($(sent nodea) - before)) -gt 20000000 ]
tell $? "their messages went over the data link: $((($(sent nodea) - before) / 1000000)) MB"

# The link is cut under a program that takes its output to FILE; waits for its launcher, then mends the link.
cut_under() { # FILE PATTERN: cut when PATTERN has been seen there, and messages go that are more than what making a communicator takes
	local launcher=$! try before
	for try in $(seq 300); do
		grep -q "$2" "$1" && break
		sleep 0.2
	done
	before=$(sent nodea)
	for try in $(seq 300); do
		[ $(($(sent nodea) - before)) -lt 50000000 ] || break
		sleep 0.2
	done
	ip -n "${tag}nodea" link set data0 down
	wait $launcher
	local code=$?
	ip -n "${tag}nodea" link set data0 up
	await_link nodea
	await_link nodeb
	return $code
}

all_reduce=${ALL_REDUCE_PERF:-$build/examples/corale_all_reduce_perf}
ranks -n 4 "$all_reduce" -b 8 -e 4M -f 8 -n 3 >"$state/all_reduce" 2>&1
tell $? "all_reduce over two hosts, every element checked"

# docker0 with the same address on both hosts, as Docker makes it: a rank that takes it finds itself in place of its peer.
for host in nodea nodeb; do
	ip -n "$tag$host" link add docker0 type veth peer name container0 && ip -n "$tag$host" addr add 172.17.0.1/16 dev docker0 &&
		ip -n "$tag$host" link set container0 up && ip -n "$tag$host" link set docker0 up
done
CORALE_NET_DEVICES='' ranks -x CORALE_DEBUG=info -n 4 "$all_reduce" -b 8 -e 64K -f 8 -n 1 >"$state/all_reduce" 2>&1
[ $? = 0 ] && [ "$(grep -c 'network devices tcp/ctl0$' "$state/all_reduce")" = 4 ]
tell $? "hosts with the same docker0: one interface alone, which leads to the other host"
CORALE_NET_DEVICES='' ranks -x CORALE_DEBUG=info -x NCCL_SOCKET_IFNAME='^ctl,docker' -n 4 "$all_reduce" -b 8 -e 64K -f 8 -n 1 >"$state/all_reduce" 2>&1
[ $? = 0 ] && [ "$(grep -c 'network devices tcp/data0$' "$state/all_reduce")" = 4 ]
tell $? "NCCL_SOCKET_IFNAME leaves another one"
for host in nodea nodeb; do ip -n "$tag$host" link del docker0; done

# A deadline so short is also one of timing links, which a busy machine may miss.
CORALE_TIMEOUT=5 CORALE_NET_RATES=built-in ranks -x CORALE_TIMEOUT -x CORALE_NET_RATES -n 4 "$all_reduce" -b 1M -e 1M -n 1000000 -c 0 >"$state/all_reduce" 2>&1 &
cut_under "$state/all_reduce" algbw
[ $? = 1 ] && grep -q 'ERROR node[ab] rank [0-3]: all_reduce.*CORALE_TIMEOUT.*its link is cut' "$state/all_reduce"
tell $? "all_reduce names the rank that it waits for when the link is cut" "$state/all_reduce"
grep -q 'WARN node[ab] rank [0-3]: rank [0-3] (process [0-9]* of host node[ab]) silent for .* does not answer: its link is cut' "$state/all_reduce"
tell $? "before that, a line says that this rank does not answer" "$state/all_reduce"

PER_NODE=1 ranks --enable-recovery -n 2 "$fault" die \
	>"$state/die" 2>"$state/errors"
retell "$state/die" 2

PER_NODE=1 ranks -n 2 "$fault" cut >"$state/cut" 2>"$state/errors" &
cut_under "$state/cut" running
tell $? "the launcher survives the cut"
retell "$state/cut" 2
echo "1..$count"
exit $status
