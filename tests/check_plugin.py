#!/usr/bin/env python3
"""check_plugin.py PLUGIN...: fails unless each exports pg_backend_get and nothing else, and wants nothing but of
libraries that may be missing without harm to libpg itself."""
import re
import subprocess
import sys

LIBRARIES = r'lib(c|m|dl|pthread|gcc_s|stdc\+\+|cudart|cublasLt|cudnn)\.so\.\d+|ld-linux.*'


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


problems = []
for plugin in sys.argv[1:]:
    exported = [line.split()[-1] for line in lines('nm', '-D', '--defined-only', plugin)]
    if exported != ['pg_backend_get']:
        problems.append(f'{plugin} exports {", ".join(exported) or "nothing"}')
    for line in lines('readelf', '-d', plugin):
        needed = re.search(r'\(NEEDED\).*\[(.*)\]', line)
        if needed and not re.fullmatch(LIBRARIES, needed[1]):
            problems.append(f'{plugin} wants {needed[1]}')
    for line in lines('nm', '-D', '--undefined-only', plugin):
        kind, name = line.split()
        if kind == 'U' and '@' not in name:  # every allowed library has versions
            problems.append(f'{plugin} wants {name}, which no library is known to have')
print('\n'.join(problems) or f'{len(sys.argv) - 1} plug-ins')
sys.exit(bool(problems))
