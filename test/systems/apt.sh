# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Sourced by quickstart and .ci/run: apt-get that waits up to $apt_seconds for another apt instead of failing at once.
apt_seconds=${apt_seconds:-300}

# DPkg::Lock::Timeout does not hold for the lock of the package lists, so an update is tried again while that is taken.
apt_update()
{
	apt_began=$(date +%s) apt_waits=no
	while :; do
		apt_code=0
		apt_said=$(LC_ALL=C apt-get update -qq 2>&1 </dev/null) || apt_code=$?
		case $apt_code,$apt_said in
		[1-9]*"Could not get lock"*) [ $(($(date +%s) - apt_began)) -lt "$apt_seconds" ] || break ;;
		*) break ;;
		esac
		[ $apt_waits = yes ] || echo "    another apt is at work: waiting for it, $apt_seconds s at most" >&2
		apt_waits=yes
		sleep 2
	done
	[ -z "$apt_said" ] || echo "$apt_said" >&2
	return "$apt_code"
}

apt_install() # PACKAGE...
{
	apt-get -o DPkg::Lock::Timeout="$apt_seconds" install -y -qq --no-install-recommends "$@" </dev/null
}
