# SPDX-License-Identifier: BSD-3-Clause
# Sourced by test/tree/layers.sh and test/tree/circles.sh, which run in a build's folder.

# symbols FOLDER...: a line for each symbol of the build's object files: folder, source file, kind as nm has it, name. Those of shared libraries
# where there are no others; none of a program of test/, and none whose source is gone.
symbols()
{
	find "$@" -name '*.o' -exec nm -A {} + 2>/dev/null |
		sed -n 's,/\.libs/,/,; s,^\(.*\)/\([^/:]*\)\.o:[0-9a-f]* *\([A-Za-z]\) \(.*\)$,\1 \2 \3 \4,p' |
		awk -v top="$top_srcdir" 'function is_there(file) { return (getline <file) >= 0 && !close(file) }
		$2 ~ /^test_/ { next }
		{ sub(/^.*-/, "", $2); file = top "/" $1 "/" $2; found = $0 }
		!(file in known) { known[file] = is_there(file ".c") || is_there(file ".cu") }
		known[file] { print found }'
}
