#!/usr/bin/env python3
"""usage: doc_layouts.py PGCONVERT PAGE.md

The page's table of layouts must be the program's: that of its --help, which the library's own table makes."""
import re
import subprocess
import sys

text = subprocess.run([sys.argv[1], '--help'], stdout=subprocess.PIPE, text=True, check=True).stdout
said = re.findall(r'^  (\S.*?): (.*)\n    (.*)$', text, re.M)
block = re.search(r'^\| Keras \| `torch.nn` \| tensors \|\n\|---\|---\|---\|\n((?:\|.*\n)*)', open(sys.argv[2], encoding='utf-8').read(), re.M)
shown = [tuple(c.strip().replace('\\*', '*') for c in row.strip('|\n').split(' | ')) for row in block.group(1).splitlines()] if block else []
if len(said) < 10 or shown != said:
    print('\n'.join(f'the page {a}\n--help {b}' for a, b in zip(shown, said) if a != b) or f'{len(shown)} rows, --help has {len(said)}')
    sys.exit(1)
