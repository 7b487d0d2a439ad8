#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The scripts that `./quickstart test` and CI run call no program that a minimal Debian lacks, unless quickstart installs its package or the
# script asks for it first: each program is in test/tree/programs.table. test/tree/programs.awk reads the commands of the scripts. TAP.
# "test/tree/programs.sh list" prints each program and a script that calls it.
top=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd) || exit 1
. "$top/test/run/tap.sh"
cd "$top" || exit 1
essential=" bash bsdutils coreutils dash diffutils dpkg findutils grep hostname libc-bin mawk mount sed tar util-linux "
# Of the shell itself, of bash where a script is bash's.
builtins=". : break cd command compgen continue eval exec exit export local mapfile read return set shift trap unset wait"

scripts=$(find quickstart test nccl_glue/corale-run.in -type f ! -name '*.table' | sort | xargs grep -lE '^#! ?/bin/(ba)?sh|^# Sourced' && find test -name '*.sh')
# The commands that C tests give to a shell.
commands=$scratch/commands.sh
sed -n '/[a-z]*printf(command,/,/;$/{s/^[^"]*"\(.*\)".*/\1/p;}; s/.*\(system\|popen\)("\([^"]*\)".*/\2/p' test/*/*.c >"$commands"
printf '%s\n' $scripts | sort -u | xargs awk -f test/tree/programs.awk "$commands" >"$scratch/words"
sed -i "s,$scratch/commands.sh,test/*/*.c,; /%s/d" "$scratch/words"

# Prints what in the words of scripts (file $1) the table does not allow.
not_allowed()
{
	awk -F '\t' -v builtins="$builtins" '
	function glob(pattern) {
		gsub(/[.+]/, "\\\\&", pattern)
		gsub(/\*/, ".*", pattern)
		return "^" pattern "$"
	}
	FILENAME ~ /programs.table$/ {
		if (/^#/)
			next
		split($2, names, " ")
		for (i in names) {
			where[names[i]] = $3
			asks[names[i]] = $4 ~ /^asked for/
		}
		next
	}
	{ word[++n] = $4; script[n] = $2; line[n] = $3; kind[n] = $1 }
	$1 == "function" { is_function[$4] = 1 }
	$1 == "check" { is_checked[$2, $4] = 1 }
	END {
		split(builtins, names, " ")
		for (i in names)
			is_function[names[i]] = 1
		for (i = 1; i <= n; i++) {
			if (kind[i] != "call" || (word[i] in is_function))
				continue
			allowed = 0
			count = split(where[word[i]], patterns, " ")
			for (j = 1; j <= count; j++)
				allowed = allowed || script[i] ~ glob(patterns[j])
			if (!allowed)
				print script[i] ":" line[i] ": " word[i] " is not in test/tree/programs.table for this script"
			else if (asks[word[i]] && !((script[i], word[i]) in is_checked))
				print script[i] ":" line[i] ": " word[i] " is called and never asked for by command -v"
		}
	}' test/tree/programs.table "$1"
}
if [ "$1" = list ]; then
	awk -F '\t' '$1 == "call" { print $4 "\t" $2 ":" $3 }' "$scratch/words" | sort -u -k 1,1
	exit
fi

not_allowed "$scratch/words" >"$scratch/output"
[ ! -s "$scratch/output" ] && [ "$(wc -l <"$scratch/words")" -ge 1000 ]
tell "scripts call no program that a minimal system lacks"

# A package of the table is essential, installed by quickstart, or for some scripts only.
grep -v '^#' test/tree/programs.table | while IFS='	' read -r package programs where why; do
	case $essential in *" $package "*) continue ;; esac
	[ "$where" = "*" ] || case $why in "quickstart installs"*) ;; *) continue ;; esac
	grep -q "[\" ]$package \(needed\|optional\|\$[a-z]*_is\) \|^$package \(needed\|optional\|\$[a-z]*_is\) " quickstart || echo "# $package ($programs): quickstart does not install it"
done >"$scratch/output"
[ ! -s "$scratch/output" ]
tell "quickstart installs what the table says"

# Each of these calls is seen, once.
cat >"$scratch/calls.sh" <<'SCRIPT'
pgrep-1 a # pgrep-comment
x=$(pgrep-2 a) && ! pgrep-3 | pgrep-4 >out 2>&1; y="a $(pgrep-5 "`pgrep-6`") b" pgrep-7
if pgrep-8; then pgrep-9; elif [ -n "$x" ]; then { pgrep-10; }; fi
timeout -k 5 10 env -u A B=1 pgrep-11
trap 'kill $(pgrep-12 x)' EXIT
mapfile -t pids < <(pgrep-13 -x "$program")
case $x in
a | "b c") pgrep-14 ;; # pgrep-comment
*) pgrep-15 'pgrep-word' "pgrep-word" pgrep-word ;;
esac
for x in pgrep-word 'b'; do pgrep-16; done || (pgrep-17)
sh -c 'cd / && pgrep-18 "$0"' pgrep-word
find . -name pgrep-word -exec pgrep-19 {} +
cat <<END
pgrep-word
END
cat >agent <<-'END'
	#!/bin/sh
	exec nsenter --net=x pgrep-20
END
list=(pgrep-word ${x:-$(pgrep-21)})
[[ $x = pgrep-word && ( -n $y ) ]] && pgrep-22
echo $((1 + 2)) '
pgrep-word' \
	pgrep-word
/usr/bin/pgrep-23
command -v pgrep-word
SCRIPT
awk -f test/tree/programs.awk "$scratch/calls.sh" >"$scratch/output"
sed -n 's/^call.*pgrep-//p' "$scratch/output" | sort -n | tr '\n' ' ' >"$scratch/seen"
[ "$(cat "$scratch/seen")" = "$(seq -s ' ' 23) " ]
tell "calls are found in every place where a shell has commands"

{ cat "$scratch/words"; printf 'call\ttest/nccl/nccl_hosts.sh\t94\tpgrep\n'; } >"$scratch/more"
not_allowed "$scratch/more" >"$scratch/output"
grep -q '^test/nccl/nccl_hosts.sh:94: pgrep is not in' "$scratch/output"
tell "a call of pgrep in a test is found"
echo "1..$number"
