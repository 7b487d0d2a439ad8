# SPDX-License-Identifier: BSD-3-Clause
# The programs that shell scripts call: reads scripts, prints a line each, "KIND<TAB>SCRIPT<TAB>LINE<TAB>NAME".
# KIND is call (the first word of a command), function (the script defines it) or check (command -v NAME, or quickstart's have NAME).
# Reads nested commands too: $(...), `...`, <(...), the strings of sh -c, trap and eval, commands behind timeout, env, xargs, find -exec and
# others, here-documents that are scripts. Names that only a variable knows are left out.

BEGIN {
	# Commands that start another: how many words come before it, and which options take a word.
	split("timeout:1 env:0 exec:0 command:0 builtin:0 nice:0 nohup:0 time:0 xargs:0 setarch:1 setpriv:0 unshare:0 nsenter:0 chroot:1 stdbuf:0 " \
		"setsid:0 flock:1 taskset:0 mpirun:0 try:1 on:1 start:1 machine:1 container:1 run_logged:2 stage:2 over:0 have:0", rules, " ")
	for (i in rules) {
		split(rules[i], rule, ":")
		words_before[rule[1]] = rule[2]
	}
	split("timeout -k timeout -s env -u env -C nice -n xargs -I xargs -n xargs -P xargs -d xargs -L exec -a setpriv --reuid setpriv --regid " \
		"unshare --propagation taskset -c mpirun -n mpirun -np", rules, " ")
	for (i = 1; i in rules; i += 2)
		takes_word[rules[i], rules[i + 1]] = 1
	split("if then elif else while until do { ! time", rules, " ")
	for (i in rules)
		before_command[rules[i]] = 1
	split("fi done } esac", rules, " ")
	for (i in rules)
		after_command[rules[i]] = 1
	split("sh bash dash $BASH $SHELL", rules, " ")
	for (i in rules)
		shell[rules[i]] = 1
}
FNR == 1 && text != "" { scan_file() }
{
	script = FILENAME
	text = text $0 "\n"
}
END { scan_file() }

function scan_file()
{
	scan(text, 1)
	text = ""
}

# Reads a text of its own, such as the string behind sh -c.
function scan(string, first_line,    old_source, old_at, old_first, old_waiting)
{
	old_source = source
	old_at = at
	old_first = first
	old_waiting = waiting
	source = string
	at = 1
	first = first_line
	waiting = 0
	while (at <= length(source))
		read_commands("")
	source = old_source
	at = old_at
	first = old_first
	waiting = old_waiting
}

function line_number(    before)
{
	before = substr(source, 1, at - 1)
	return first + gsub(/\n/, "", before)
}

function report(kind, name)
{
	print kind "\t" script "\t" line_number() "\t" name
}

# Commands up to END: ")", "case" (";;" or esac) or the end of the text.
function read_commands(end,    c, word, command, begins, prefix, before, skip, string)
{
	begins = 1
	while (at <= length(source)) {
		c = substr(source, at, 1)
		if (c == " " || c == "\t") {
			at++
		} else if (c == "\\" && substr(source, at + 1, 1) == "\n") {
			at += 2
		} else if (c == "#") {
			at += index(substr(source, at) "\n", "\n") - 1
		} else if (c == "\n") {
			end_line()
			begins = 1
		} else if (c == ";") {
			at++
			if (substr(source, at, 1) == ";") {
				at++
				if (end == "case")
					return ";;"
			}
			begins = 1
		} else if (c == "&" && substr(source, at + 1, 1) == ">") {
			at++
		} else if (c == "&" || c == "|") {
			at++
			begins = 1
		} else if (substr(source, at, 2) == "((") {
			skip_arithmetic()
		} else if (c == "(") {
			at++
			read_commands(")")
			begins = 0
		} else if (c == ")") {
			at++
			if (end == ")")
				return ")"
			begins = 1
		} else if (c == "<" || c == ">") {
			redirect()
		} else {
			word = read_word()
			if (word ~ /^[0-9]+$/ && !is_quoted && substr(source, at, 1) ~ /[<>]/)
				continue
			if (!begins) { # a word behind a command
				if (skip) {
					skip = 0
					continue
				}
				if (command == "find" && word ~ /^-(exec|execdir)$/) {
					begins = 1
					continue
				}
				if (command == "ip" && word == "exec") {
					prefix = 1
					before = 1
					continue
				}
				if (word == "-" && command == "trap")
					string = 0
				if (string && word !~ /^-/) {
					if (!is_variable || is_quoted)
						scan(word, line_number())
					string = command == "eval"
					continue
				}
				if ((command in shell) && word ~ /^-[a-z]*c$/) {
					string = 1
					continue
				}
				if (!prefix)
					continue
				if (command == "command" && word ~ /^-[vV]$/) {
					command = "have"
					continue
				}
				if (word ~ /^-/) {
					skip = ((command, word) in takes_word)
					continue
				}
				if (command == "env" && word ~ /^[A-Za-z_][A-Za-z0-9_]*=/)
					continue
				if (command == "have") {
					report("check", word)
					continue
				}
				if (before-- > 0)
					continue
			}
			# The first word of a command.
			prefix = string = skip = 0
			if (is_bare && word ~ /^[A-Za-z_][A-Za-z0-9_]*(\[[^]]*\])?\+?=/) {
				if (substr(source, at, 1) == "(" && word ~ /=$/) {
					at++
					skip_list()
				}
				begins = 1
				continue
			}
			if (!is_quoted && (word in before_command)) {
				begins = 1
				continue
			}
			begins = 0
			command = ""
			if (!is_quoted && word == "esac" && end == "case")
				return "esac"
			if (!is_quoted && (word in after_command))
				continue
			if (!is_quoted && (word == "for" || word == "select"))
				continue
			if (!is_quoted && word == "[[") {
				while (at <= length(source) && read_test_word() != "]]")
					;
				continue
			}
			if (!is_quoted && word == "case") {
				read_case()
				continue
			}
			if (match(substr(source, at, 80), /^[ \t]*\(\)/)) {
				at += RLENGTH
				report("function", word)
				begins = 1
				continue
			}
			command = word
			sub(/.*\//, "", command)
			if (!is_variable && command !~ /^[0-9]*$/ && word !~ /^[^\/].*\//) # not ./program
				report("call", command)
			string = command == "trap" || command == "eval"
			prefix = (command in words_before)
			before = prefix ? words_before[command] : 0
		}
	}
	return ""
}

# case WORD in PATTERN) COMMANDS ;; ... esac
function read_case(    word, ended)
{
	skip_blank()
	read_word()
	skip_blank()
	read_word() # in
	for (;;) {
		skip_blank()
		if (at > length(source))
			return
		if (substr(source, at, 1) == "#") {
			at += index(substr(source, at) "\n", "\n") - 1
			continue
		}
		if (substr(source, at, 1) == "(")
			at++
		word = read_word()
		if (word == "esac" && !is_quoted)
			return
		while (at <= length(source) && substr(source, at, 1) != ")") {
			at++
			if (substr(source, at, 1) !~ /[ \t|)]/)
				read_word()
		}
		at++
		if (read_commands("case") != ";;")
			return
	}
}

function skip_blank()
{
	while (substr(source, at, 1) ~ /^[ \t\n]$/ || substr(source, at, 2) == "\\\n")
		at += substr(source, at, 1) == "\\" ? 2 : 1
}

# The words of name=( ... ).
function skip_list()
{
	for (;;) {
		skip_blank()
		if (at > length(source) || substr(source, at, 1) == ")") {
			at++
			return
		}
		if (substr(source, at, 1) ~ /[;&|<>(]/)
			at++
		else
			read_word()
	}
}

function read_test_word()
{
	skip_blank()
	if (substr(source, at, 1) ~ /[;&|<>()]/) {
		at++
		return ""
	}
	return read_word()
}

function skip_arithmetic(    depth, c)
{
	do {
		c = substr(source, at, 1)
		if (c == "(")
			depth++
		else if (c == ")")
			depth--
		if (c == "$" && substr(source, at + 1, 1) == "(" && substr(source, at + 2, 1) != "(")
			expand()
		else
			at++
	} while (depth > 0 && at <= length(source))
}

function redirect(    operator, word)
{
	operator = substr(source, at, 3)
	if (operator == "<<<") {
		at += 3
	} else if (substr(operator, 1, 2) == "<<") {
		at += 2
		strip[waiting] = substr(source, at, 1) == "-"
		at += strip[waiting]
		skip_blank()
		delimiter[waiting++] = read_word()
		return
	} else if (operator ~ /^[<>]\(/) {
		at += 2
		read_commands(")")
		return
	} else {
		while (substr(source, at, 1) ~ /^[<>&|]$/)
			at++
	}
	skip_blank()
	if (substr(source, at, 2) ~ /^[<>]\(/)
		redirect()
	else
		read_word()
}

# A newline, and the here-documents that begin behind it. One that is a shell script is read.
function end_line(    i, rest, line, body, start)
{
	at++
	for (i = 0; i < waiting; i++) {
		body = ""
		start = line_number()
		while (at <= length(source)) {
			rest = substr(source, at)
			line = substr(rest, 1, index(rest "\n", "\n") - 1)
			at += length(line) + 1
			if (strip[i])
				sub(/^\t+/, "", line)
			if (line == delimiter[i])
				break
			body = body line "\n"
		}
		if (body ~ /^#! ?\/(usr\/)?bin\/(env )?(ba|da)?sh/) {
			waiting = 0
			scan(body, start)
		}
	}
	waiting = 0
}

# A word without its quotes. Sets is_quoted, is_variable (a part of it is only known when it runs) and is_bare (it begins without a quote).
function read_word(    c, out, quoted, variable, end, bare)
{
	bare = substr(source, at, 1) !~ /['"\\$]/
	while (at <= length(source)) {
		c = substr(source, at, 1)
		if (c ~ /[ \t\n;&|()<>]/)
			break
		if (c == "'") {
			end = index(substr(source, at + 1), "'")
			out = out substr(source, at + 1, end - 1)
			at += end + 1
			quoted = 1
		} else if (c == "\"") {
			out = out read_quoted()
			quoted = 1
			variable = variable || is_variable
		} else if (c == "\\") {
			out = out substr(source, at + 1, 1)
			at += 2
		} else if (c == "$" || c == "`") {
			out = out expand()
			variable = 1
		} else {
			out = out c
			at++
		}
	}
	is_quoted = quoted
	is_variable = variable
	is_bare = bare
	return out
}

function read_quoted(    c, out, variable)
{
	at++
	while (at <= length(source) && (c = substr(source, at, 1)) != "\"") {
		if (c == "\\") {
			out = out substr(source, at + 1, 1)
			at += 2
		} else if (c == "$" || c == "`") {
			out = out expand()
			variable = 1
		} else {
			out = out c
			at++
		}
	}
	at++
	is_variable = variable
	return out
}

# At $ or `: reads what is expanded there, returns how it is written, of commands nothing.
function expand(    start, end, c)
{
	start = at
	if (substr(source, at, 1) == "`") {
		end = index(substr(source, at + 1), "`")
		scan(substr(source, at + 1, end - 1), line_number())
		at += end + 1
		return ""
	}
	at++
	c = substr(source, at, 1)
	if (c == "(" && substr(source, at + 1, 1) == "(") {
		skip_arithmetic()
		return ""
	}
	if (c == "(") {
		at++
		read_commands(")")
		return ""
	}
	if (c == "'") {
		at++
		while (at <= length(source) && substr(source, at, 1) != "'")
			at += substr(source, at, 1) == "\\" ? 2 : 1
		at++
		return ""
	}
	if (c == "{") {
		while (at <= length(source) && (c = substr(source, at, 1)) != "}") {
			if (c == "\\")
				at += 2
			else if (c == "\"")
				read_quoted()
			else if (c == "$" || c == "`")
				expand()
			else
				at++
		}
		at++
		return substr(source, start, at - start)
	}
	if (c ~ /[A-Za-z_]/) {
		match(substr(source, at), /^[A-Za-z0-9_]+/)
		at += RLENGTH
	} else {
		at++
	}
	return substr(source, start, at - start)
}
