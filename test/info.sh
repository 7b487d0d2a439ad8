#!/bin/sh
# corale-info: its sections, values with their origin, unknown names, malformed values, wrong arguments. TAP.
info=$top_builddir/examples/corale-info
number=0
for name in $(env | sed -n 's/^\(CORALE_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done

# result STATUS DESCRIPTION
result()
{
	number=$((number + 1))
	if [ "$1" = 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; fi
}

# has REGULAR-EXPRESSION DESCRIPTION: of the last output
has()
{
	printf '%s\n' "$output" | grep -Eq "$1"
	result $? "$2"
}

output=$("$info" 2>&1)
result $? "runs"
has '^corale [0-9]+\.[0-9]+\.[0-9]+$' "version"
has '^  compiler +[^ ]' "compiler"
has '^  CORALE_TIMEOUT +600 +default$' "a default"
has '^  cores +[1-9]' "cores"
has '^  +process_vm_readv +(works|refused|not)' "process_vm_readv"
has '^  +shared windows \(memfd\) +works' "memfd"
has '^  cuda +[^ ]' "cuda, or why not"
has '^  ucx +[^ ]' "ucx, or why not"
has '^  mpi +[^ ]' "mpi, or why not"

output=$(CORALE_SLOTS=16 CORALE_TIMOUT=3 CORALE_TRANSPORT=mpi CORALE_REFERENCE=no "$info" 2>&1)
result $? "runs with settings"
has '^  CORALE_SLOTS +16 +environment$' "a value and its origin"
has '^  CORALE_TIMOUT +unknown.*CORALE_TIMEOUT' "an unknown name and the nearest one"
has '^  ucx +(not used: CORALE_TRANSPORT=mpi|.*no UCX)' "the transport that was asked for"
has '^  +process_vm_readv +not used: CORALE_REFERENCE=no' "no references"

output=$(CORALE_NET_DEVICES=lo "$info" 2>&1)
if printf '%s\n' "$output" | grep -q '^  ucx  *used'; then
	has '^    network devices +tcp/lo$' "the network devices that UCX opens"
	output=$(UCX_TLS=self,sm "$info" 2>&1)
	has '^    network devices +none$' "none without a network"
fi

output=$(CORALE_SLOTS=many "$info" 2>&1)
[ $? = 1 ]
result $? "a malformed value is status 1"
has 'CORALE_SLOTS=many is malformed' "and is named"
has '^  cores +[1-9]' "and the rest is still told"
output=$(CORALE_TRANSPORT=tcp "$info" 2>&1)
[ $? = 1 ]
result $? "an unknown transport is status 1"
has 'CORALE_TRANSPORT=tcp is malformed: expected auto, inproc, ucx, mpi' "and those that there are, are named"

output=$("$info" --no-such-thing 2>&1)
[ $? = 2 ]
result $? "wrong arguments are status 2"
output=$(CORALE_NET_RATES="rail_us:3 rail_send_us:0.4" "$info")
has '^  rates  *rail_us:3 rail_send_us:0.4 ' "rates between nodes"
output=$("$info" --help)
result $? "--help"
has '^Usage: corale-info' "usage"
echo "1..$number"
