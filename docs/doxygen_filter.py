#!/usr/bin/env python3
"""Shows Doxygen a header whose comments are written for people: doxygen_filter.py HEADER.

Doxygen reads comments that begin with ///, takes their text for Markdown, and does not know that a
file's first comment is about the class that the file is named after. This filter (FILTER_PATTERNS in
docs/Doxyfile) writes the header to standard output with
- the file's first comment as the description of the file, and of the class that it begins with,
- every comment before a declaration, or behind a member, as its description,
- what is indented in a comment, examples and tables, as a code block,
- characters escaped that mean something to Doxygen.
Line rulers ("// ---- Instances ----") and the prose below them stay plain comments.
"""

import re
import sys

COMMENT = re.compile(r"\s*//")
RULER = re.compile(r"\s*// ----")
ITEM = re.compile(r"\s*(\d+\. .*)")


def escape(text):
    """Text in which nothing is special to Doxygen, but for what stands between backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([<>@\\#])", r"\\\1", part)
                   for part in parts)


def description(lines, indent=""):
    """The lines of a comment, without their `//`, as lines for Doxygen."""
    result = []
    inside = "text"  # or "code", or "item" of a numbered list
    previous = ""
    for line in lines:
        item = ITEM.fullmatch(line)
        if item and inside != "code":
            inside = "item"
            result.append(escape(item.group(1)))
        elif line.startswith("  ") and inside == "item":
            result.append("    " + escape(line.strip()))
        elif line.startswith("  ") and (inside == "code" or not previous):
            inside = "code"
            result.append("    " + line[2:])
        else:
            if line:
                inside = "text"
            result.append(escape(line))
        previous = line
    return [f"{indent}/// {line}".rstrip() for line in result]


def convert(source):
    lines = source.splitlines()
    end = next(i for i, line in enumerate(lines) if not COMMENT.match(line))
    about = [line[3:] for line in lines[:end]]
    output = ["/// \\file", *description(about)]
    subject = re.match(r"(\w+)(<\w+>)?: ", about[0])
    declares_subject = re.compile(
        rf"(class|struct)\b.*\b{subject.group(1)}\b[^;]*{{$" if subject else r"(?!)")

    i = end
    while i < len(lines):
        if RULER.match(lines[i]):
            while i < len(lines) and COMMENT.match(lines[i]):
                output.append(lines[i])
                i += 1
        elif COMMENT.match(lines[i]):
            first = i
            while i < len(lines) and COMMENT.match(lines[i]):
                i += 1
            if i < len(lines) and lines[i].strip():
                indent = lines[first][:lines[first].index("/")]
                output += description([line.strip()[3:] for line in lines[first:i]], indent)
            else:  # about nothing in particular
                output += lines[first:i]
        else:
            if lines[i] == "template <>":  # a specialization; Doxygen does not know the template
                end = lines.index("};", i) + 1
                output += ["/// \\cond", *lines[i:end], "/// \\endcond"]
                i = end
                continue
            if declares_subject.match(lines[i]):
                output += description(about)
            behind = re.match(r"(?!\s*#)(.*[;,{}\w])(\s*)// (.*)$", lines[i])
            output.append(f"{behind[1]}{behind[2]}///< {escape(behind[3])}" if behind else lines[i])
            i += 1
    return "\n".join(output) + "\n"


def main(argv):
    if len(argv) != 2:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    with open(argv[1], encoding="utf-8") as header:
        sys.stdout.write(convert(header.read()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
