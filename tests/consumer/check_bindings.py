#!/usr/bin/env python3
"""Compares hand-written declarations of the C library with its header.

The Rust and LuaJIT examples declare what they use of prefix_router.h. Each struct, function and
constant there must be the header's: members and parameters by name, type and order.

Usage: check_bindings.py INCLUDE_DIR EXAMPLES_DIR
"""

import pathlib
import re
import sys

RUST_TYPES = {
    "size_t": "usize", "uint8_t": "u8", "int32_t": "i32", "uint32_t": "u32", "int64_t": "i64",
    "uint64_t": "u64", "double": "f64", "float": "f32", "char": "c_char", "void": "c_void",
}


def c_declarations(text):
    """Constants (name: value), structs (name: members) and functions (name: result, parameters)."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    found = {}
    for body in re.findall(r"\benum\s*\{(.*?)\}", text, re.S):
        for name, value in re.findall(r"(\w+)\s*=\s*(\d+)", body):
            found[name] = int(value)
    for body, name in re.findall(r"typedef struct \w+\s*\{(.*?)\}\s*(\w+);", text, re.S):
        found[name] = variables(body.split(";"))
    for result, name, parameters in re.findall(
            r"^(?:PREFIX_ROUTER_API )?((?:const )?\w+\*?) (prefix_router_\w+)\(([^)]*)\);", text, re.M):
        found[name] = [("", result), *variables([] if parameters == "void" else parameters.split(","))]
    return found


def variables(declarations):
    """(name, type) of C declarations such as `const char* name`."""
    words = [" ".join(declaration.split()) for declaration in declarations]
    return [(name, type_) for type_, _, name in (word.rpartition(" ") for word in words if word)]


def rust_type(c_type):
    """`const char*` as Rust writes it: `*const c_char`."""
    pointers = c_type.count("*")
    base = c_type.rstrip("*")
    constant = base.startswith("const ")
    base = base.removeprefix("const ")
    innermost = ["*const "] if constant else ["*mut "]
    outer = ["*mut "] * (pointers - 1)
    return "".join(outer + innermost[:pointers]) + RUST_TYPES.get(base, base)


def as_rust(c_declaration):
    if isinstance(c_declaration, int):
        return c_declaration
    return [(name, "()" if type_ == "void" else rust_type(type_)) for name, type_ in c_declaration]


def rust_declarations(text):
    """As c_declarations, of Rust: with Rust's names of types."""
    text = re.sub(r"//[^\n]*", " ", text)
    found = {}
    for name, value in re.findall(r"pub const (\w+): \w+ = (\d+);", text):
        found[name] = int(value)
    for name, body in re.findall(r"#\[repr\(C\)\]\s*pub struct (\w+) \{(.*?)\}", text, re.S):
        members = re.findall(r"pub (\w+): ([^,]+),", body)
        if members:  # without any it is opaque
            found[name] = members
    for name, parameters, result in re.findall(
            r"pub fn (\w+)\((.*?)\)(?: -> ([^;]+))?;", text, re.S):
        found[name] = [("", result or "()"), *re.findall(r"(\w+): ([^,\n]+)", parameters)]
    return found


def differences(what, declared, header):
    """A line for each declaration that the header has otherwise, or not at all."""
    for name, declaration in declared.items():
        if header.get(name) != declaration:
            yield f"{what}: {name} is {declaration}, but {header.get(name)} in the header"


def main(argv):
    if len(argv) != 3:
        print(__doc__.strip().splitlines()[-1], file=sys.stderr)
        return 2
    include, examples = map(pathlib.Path, argv[1:])
    header = {}
    for path in sorted(include.glob("prefix_router*.h")):
        header.update(c_declarations(path.read_text()))
    lua_text = (examples / "luajit" / "prefixrouter.lua").read_text()
    lua = c_declarations(re.search(r"ffi\.cdef\(\[\[(.*?)\]\]\)", lua_text, re.S)[1])
    rust = rust_declarations((examples / "rust" / "src" / "sys.rs").read_text())

    # What the examples call is what must have been read; more may come.
    for what, declared in (("luajit", lua), ("rust", rust)):
        for name in ("prefix_router_request", "prefix_router_acquire", "PREFIX_ROUTER_UNAVAILABLE"):
            if name not in declared:
                print(f"{what}: no declaration of {name} was found")
                return 1
    wrong = [*differences("luajit", lua, header),
             *differences("rust", rust, {name: as_rust(c) for name, c in header.items()})]
    print("\n".join(wrong) or f"as in the header: {len(lua)} declarations of luajit, {len(rust)} of rust")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
