#!/usr/bin/env python3
"""usage: doc_run.py TESTDATA TOOLS PROGRAM               runs an example's program
       doc_run.py TESTDATA TOOLS README.md [--update]  runs every "$ command" of its ```console blocks

Both in a folder with the files that the documents speak of. A program must say nothing on stderr
and exit with 0; a command must print what the document shows (stdout and stderr together)."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from doc_files import lay_out

testdata, tools, subject = map(pathlib.Path, sys.argv[1:4])
env = dict(os.environ, LC_ALL='C.UTF-8', PATH=f'{tools.resolve()}:/usr/bin:/bin')
bad = 0


def run(command, d):
    return subprocess.run(command, cwd=d, env=env, stdout=subprocess.PIPE, text=True, timeout=120,
                          stderr=subprocess.STDOUT if isinstance(command, list) and command[0] == 'sh'
                          else subprocess.PIPE)


with tempfile.TemporaryDirectory() as d:
    lay_out(testdata, d)
    if subject.suffix != '.md':
        r = run([subject.resolve()], d)
        print(r.stdout, r.stderr, sep='')
        sys.exit(r.returncode != 0 or r.stderr != '')
    text = subject.read_text()
    for block in re.findall(r'^```console\n(.*?)^```', text, re.M | re.S):
        for command, shown in re.findall(r'^\$ (.*)\n((?:(?!\$ ).*\n)*)', block, re.M):
            got = run(['sh', '-c', command], d).stdout
            if got == shown:
                continue
            bad += 1
            text = text.replace(f'$ {command}\n{shown}```', f'$ {command}\n{got}```')
            print(f'$ {command}\n--- {subject.name} shows\n{shown}--- got\n{got}')
    if '--update' in sys.argv:
        subject.write_text(text)
sys.exit(bad != 0)
