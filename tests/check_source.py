#!/usr/bin/env python3
"""Rules that a compiler does not know; prints every offending line.

  libpg   no printing, no exit, no abort; memory only through base/mem.h; no options of a
          command line in messages, notes and hints, which go to C programs, too
  all C   functions of at most 120 lines; but for tests, files of at most 600 lines that open with a
          comment
  public  every PG_API function has a comment before it (one may stand for a group without gaps)
  names   macros and enumerators of libpg's headers begin with PG_ or, in kernels, PGK_; nothing begins with PG__
  all     no unfinished words, no trailing blanks; a page that a comment cites is in the tree, and so is
          the heading quoted after its colon
  pages   what libpg/README.md and CONTRIBUTING.md name in backquotes exists: files, and functions of libpg"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
bad = 0


def report(path, n, why):
    global bad
    bad += 1
    print(f'{path.relative_to(root)}:{n}: {why}')


def code_only(text):
    """Comments and strings blanked out, lines kept."""
    blank = lambda m: re.sub(r'[^\n]', ' ', m.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def check_functions(path, lines):
    start = None
    for n, line in enumerate(lines, 1):
        if line == '{':
            start = n
            while start > 1 and lines[start - 2].strip() and not lines[start - 2].startswith(('}', '#')) \
                    and not lines[start - 2].endswith((';', '*/')):
                start -= 1
        elif line == '}' and start:
            if n - start + 1 > 120:
                report(path, start, f'a function of {n - start + 1} lines (at most 120)')
            start = None


def check_documented(path, lines):
    covered = False
    for n, line in enumerate(lines, 1):
        if line.rstrip().endswith('*/'):
            covered = True
        elif not line.strip():
            covered = False
        if line.startswith('PG_API') and not covered:
            report(path, n, 'a public function without a comment')


# An option as people type it; not CSS' variables.
OPTION = re.compile(r'(?:^|[\s(,=])--[a-z](?![a-z]*[:)])')
TOOL = re.compile(r'\bpg(?:check|convert|diff|fit|info|join|split|unwrap|wrap)\b(?!-)') # a package is none: pgfit-cuda13


def check_messages(path, text):
    """What would help is an action (pg_err_do()), which tools/cli_action.c turns into a command line: no string literal has
    an option in it but those of the report of a run of pgfit, and none names a tool but what pgfit writes as HTML."""
    code = code_only(text)
    for m in re.finditer(r'/\*.*?\*/|"((?:\\.|[^"\\\n])*)"', text, flags=re.S):
        statement = code[max(code.rfind(c, 0, m.start()) for c in ';{}') + 1:m.start()]
        if m.group(1) and OPTION.search(m.group(1)) and 'pg_page_put' not in statement:
            report(path, text.count('\n', 0, m.start()) + 1, 'an option of a command line: let an action say it')
        if m.group(1) and TOOL.search(m.group(1)) and not m.group(1).startswith('<') and 'pg_page' not in statement:
            report(path, text.count('\n', 0, m.start()) + 1, 'a message that names a tool: let an action say it')


# Headers that are the body of one kernel or of several versions of it, with short names of their own.
BODIES = re.compile(r'libpg/(?:ops/\w*real|backend/cpu/(?:depthwise_tiles|wino_math)|backend/cuda/recur)\.h')


def check_prefixes(path, rel, code):
    for m in re.finditer(r'\bPG__[A-Z]\w*', code):
        report(path, code.count('\n', 0, m.start()) + 1, f'{m.group(0)}: macros and enumerators begin with PG_')
    if not rel.startswith('libpg/') or path.suffix != '.h' or BODIES.fullmatch(rel):
        return
    names = [(m.start(1), m.group(1)) for m in re.finditer(r'^[ \t]*#[ \t]*define[ \t]+(\w+)', code, re.M)]
    for block in re.finditer(r'^(?:typedef )?enum\b[^{;]*\{([^}]*)\}', code, re.M):
        body = re.sub(r'^[ \t]*#[^\n]*', lambda m: ' ' * len(m.group(0)), block.group(1), flags=re.M)
        names += [(block.start(1) + m.start(1), m.group(1)) for m in re.finditer(r'(?:^|,)\s*(\w+)', body)]
    for at, name in names:
        if not re.match(r'PGK?_', name) and not re.search(rf'#\s*undef {name}\b', code):
            report(path, code.count('\n', 0, at) + 1, f'{name}: macros and enumerators begin with PG_')


def headings(page):
    return {h.strip('# ').strip() for h in page.read_text().splitlines() if h.startswith('#')}


# Pages of the past, which were never in the tree.
GONE = re.compile(r'\b(keras-files|file-performance|hardening|house|aesthetics-scorecard)\.md\b', re.I)


def check_citations(path, text):
    """A page, a colon, its headings in quotes. The page lies beside the file, in libpg/ or at the root."""
    flat = re.sub(r'\n[ \t]*(?:\*(?!/)|#|//)?[ \t]*', ' ', text)
    for m in GONE.finditer(flat if path.name != 'check_source.py' else ''):
        report(path, 1, f'cites {m.group(0)}, which is not in the tree')
    for m in re.finditer(r'\b([\w./-]*[A-Z]+\.md): ("[^"]+"(?:, "[^"]+")*)', flat):
        titles = re.findall(r'"([^"]+)"', m.group(2))
        pages = [p for p in (path.parent / m.group(1), root / 'libpg' / m.group(1), root / m.group(1)) if p.exists()]
        if not pages:
            report(path, 1, f'cites {m.group(1)}, which is not in the tree')
            continue
        page = next((p for p in pages if titles[0] in headings(p)), pages[0])
        for title in titles:
            if title not in headings(page):
                report(path, 1, f'cites "{title}", which is no heading of {m.group(1)}')



def check_names(page):
    """Files and functions in backquotes. NAME stands for any name, "*" for any text; a path is one of the page's folder, of
    libpg/ or of the root."""
    for n, line in enumerate(page.read_text().splitlines(), 1):
        for name in re.findall(r'`([^`]+)`', line):
            if name.startswith('build/') or name in ('pg_noun_verb', 'pg__noun_verb'):
                continue
            if re.fullmatch(r'pg_\w*[a-z]\w*(?:\(\))?', name) and 'NAME' not in name:
                if name.rstrip('()') not in libpg_names:
                    report(page, n, f'names {name}, which is not in libpg')
            elif re.fullmatch(r'[\w.*-]*(?:/[\w.*-]*)+|[\w*-]+\.(?:c|h|def|py|sh|md|tsv|build)', name):
                pattern = name.replace('NAME', '*').rstrip('/')
                if not any(any(d.glob(pattern)) for d in (page.parent, root / 'libpg', root)):
                    report(page, n, f'names {name}, which is not in the tree')
        for name, path in re.findall(r'`(pg_\w+)(?:\(\))?`(?: in | \()`([\w/]+\.c)`', line):
            if not any(re.search(rf"^\w[^;]*\b{name}(?:\(| = {{)", f.read_text(), re.M) for f in (root / 'libpg').glob(f'**/{path}')):
                report(page, n, f'names {name} in {path}, which does not define it')


# The end of a process that MPI would hold up for ever, with the status that it ends with.
MAY_EXIT = 'libpg/comm/mpi.c'
FORBIDDEN = {
    r'\b(?:exit|_exit|abort|printf|puts|putchar|perror)\s*\(': 'libpg neither prints nor exits',
    r'\bfprintf\s*\(\s*std|\bfputs\s*\([^;]*\bstd(?:err|out)\b': 'libpg neither prints nor exits',
    r'(?<![\w.>])(?:malloc|calloc|realloc|strdup|strndup|asprintf)\s*\(': 'memory comes from base/mem.h',
}

files = [p for d in ('libpg', 'tools', 'tests') for p in (root / d).rglob('*')
         if p.suffix in ('.c', '.h', '.in', '.py', '.sh', '.build', '.def')]
libpg_names = {m for p in (root / 'libpg').rglob('*.[ch]') for m in re.findall(r'\bpg_\w+', p.read_text())}
for page in (root / 'libpg/README.md', root / 'CONTRIBUTING.md'):
    check_names(page)
for path in sorted(files):
    text = path.read_text()
    lines = text.splitlines()
    for n, line in enumerate(lines, 1):
        if line != line.rstrip():
            report(path, n, 'trailing blanks')
        if re.search(r'\b(TODO|FIXME|XX[X])\b', line) and path.name != 'check_source.py':
            report(path, n, 'an unfinished word')
    check_citations(path, text)
    if path.suffix not in ('.c', '.h', '.in'):
        continue
    check_functions(path, lines)
    check_prefixes(path, path.relative_to(root).as_posix(), code_only(text))
    if len(lines) > 600 and path.relative_to(root).parts[0] != 'tests':
        report(path, len(lines), 'more than 600 lines')
    rel = path.relative_to(root).as_posix()
    if path.suffix == '.c' and not rel.startswith('tests/') and not text.startswith('/*'):
        report(path, 1, 'no opening comment that says what and why')
    if rel.startswith('libpg/include/'):
        check_documented(path, lines)
    if rel.startswith('libpg/') and path.suffix in ('.c', '.h'):
        check_messages(path, text)
    if rel.startswith('libpg/'):
        for n, line in enumerate(code_only(text).splitlines(), 1):
            for pattern, why in FORBIDDEN.items():
                allowed = rel == 'libpg/base/mem.c' and 'mem.h' in why or rel == MAY_EXIT and 'exits' in why
                if re.search(pattern, line) and not allowed:
                    report(path, n, why)
sys.exit(bad != 0)
