#!/usr/bin/env python3
"""usage: abi.py PACKAGE --write FILE.c     a C program that tells what the headers say of what abi.h declares
       abi.py PACKAGE PROGRAM HEADERS    compares that with the package's ctypes

PACKAGE is tools/python/pgfit. The program does not compile where a prototype of abi.h differs from the header's, or names
something that is not there. What it prints are sizes and offsets of structures, and values of enums and macros."""
import ctypes
import importlib.util
import pathlib
import re
import subprocess
import sys

package = pathlib.Path(sys.argv[1])
spec = importlib.util.spec_from_file_location('_abi', package / '_abi.py')
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
abi = module.abi

# (what C prints, what ctypes has): an expression of C, and its value here.
facts = []
for name, struct in abi.structures.items():
    facts.append((f'sizeof({name})', ctypes.sizeof(struct)))
    for field, kind in struct._fields_:
        facts.append((f'offsetof({name}, {field})', getattr(struct, field).offset))
        facts.append((f'sizeof((({name} *)0)->{field})', ctypes.sizeof(kind)))
    ends = sorted((getattr(struct, f).offset, ctypes.sizeof(k)) for f, k in struct._fields_)
    assert all(a + n <= b for (a, n), (b, _) in zip(ends, ends[1:])), name
for values in abi.enums.values():
    facts += [(value, getattr(abi, value)) for value in values]
facts += abi.constants.items()
facts.append(('PG_NONE', ctypes.c_size_t(-1).value))
# An enum that has grown: a value beyond the last one here is a warning of -Wswitch, an error in this program.
switches = ''.join('static int known_%s(%s v)\n{\n    switch (v) {\n%s        return 1;\n    }\n    return 0;\n}\n' % (
    name, name, ''.join(f'    case {value}:\n' for value in values)) for name, values in abi.enums.items())

if sys.argv[2] == '--write':
    pathlib.Path(sys.argv[3]).write_text(
        '#include <pg/pg.h>\n#include <stdio.h>\n#pragma GCC diagnostic error "-Wswitch"\n'
        + ''.join(f'{f.text}\n' for f in abi.functions.values()) + switches + 'int main(void)\n{\n'
        + ''.join(f'    printf("%zu\\n", (size_t)({c}));\n' for c, _ in facts)
        + ''.join(f'    (void)known_{name};\n' for name in abi.enums) + '    return 0;\n}\n')
    sys.exit()
told = subprocess.run([sys.argv[2]], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
wrong = [f'{c}: {n} in the headers, {ours} in abi.h' for (c, ours), n in zip(facts, map(int, told)) if n != ours]
assert len(told) == len(facts)

# A member that the headers add where there was padding changes no size.
headers = re.sub(r'/\*.*?\*/', '', ''.join(h.read_text() for h in pathlib.Path(sys.argv[3]).glob('*.h')), flags=re.S)
sizes = ''.join(f'#define {name} {n}\n' for name, n in abi.constants.items())
for name, body in re.findall(r'^typedef struct (\w+) \{(.*?)^\} \1;', headers, re.M | re.S):
    if name in abi.structures:
        theirs = [n for n, _ in module.Abi('%sstruct %s {%s};' % (sizes, name, body)).structures[name]._fields_]
        ours = [n for n, _ in abi.structures[name]._fields_]
        if theirs != ours:
            wrong.append(f'{name} has members {theirs} in the headers, {ours} in abi.h')
print('\n'.join(wrong) or f'{len(facts)} facts, {len(abi.functions)} prototypes')
sys.exit(bool(wrong))
