#!/usr/bin/env python3
"""usage: surroundings.py --tools DIR --testdata DIR [--all] [--only CHECK] [--jobs N]

The file tools in places where programs stumble, every way to save (saves.py) in each: disks of n KiB, or of n files, or
read only; folders of somebody else; limits on the size and the number of files; standard streams that are closed, full or
a broken pipe; inputs and outputs that are no files, or each other; a folder that another run still holds; and two runs with one output at the same time.

Wanted as everywhere: the old output and exit 2 with one line, or the new one and exit 0; nothing left behind. What this
machine does not allow (mounts, another user) is said and left out; 77 if nothing else is there. Prints how many of how many passed."""
import itertools
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import saves
import sweep

options = sweep.options(__doc__, ('--testdata', dict(required=True, type=pathlib.Path)),
                        ('--rounds', dict(type=int, default=10, help='of two runs at the same time, when sampling')), faultrun=False)
testdata = options.testdata.resolve()
NOBODY = 65534
skipped = []


def command_of(p, root):
    return p.command, dict(os.environ, TMPDIR=str(root / 'tmp'), LC_ALL='C.UTF-8')


def input_of(command):
    """Where it stands in the command: the last path of another folder."""
    return max(i for i, a in enumerate(command) if i and a.startswith('/'))


def run(command, cwd, env=None, **more):
    more = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **more)
    return sweep.Run(subprocess.run(command, cwd=cwd, env=env, stderr=subprocess.PIPE, text=True, errors='replace', timeout=120, **more))


def judge(p, r, held, why=None):
    """why: what the one line says if the run fails; '' if it must not."""
    state, why = p.state(held), None if p.save.refuses else why
    unheard = p.save.refuses and not r.heads  # stderr is closed
    others = [k for k in p.others(held) if not (p.is_folder and k.startswith(p.out + '.pg-new'))]
    if r.status not in (0, 2) or r.status and why == '':
        return str(r)
    if r.status == 2 and not unheard and (len(r.heads) != 1 or why and why not in r.err):
        return f'not the one line: {r}'
    if state not in (('new',) if r.status == 0 else ('old', 'begun')) and not p.save.refuses:
        return f'{state} output, {r}'
    return f'leaves {others}, {r}' if others else ''


def here(p, root, name, why, **more):
    """A trial in a folder of its own."""
    folder = root / name
    saves.plant(folder, p.before)
    command, env = command_of(p, root)
    try:
        r = run(command, folder, env, **more)
        return judge(p, r, saves.tree(folder), why)
    finally:
        shutil.rmtree(folder)


# ---- disks: each run has a mount of its own ----


def on_disk(p, root, name, mount, then, why):
    """mount: options of the tmpfs; then: a command for the shell between filling it and the run."""
    folder = root / name
    folder.mkdir()
    saves.plant(folder / 'before', p.before)
    command, env = command_of(p, root)
    env['TMPDIR'] = str(root / 'tmp')
    script = (f'mkdir disk && mount -t tmpfs -o {mount} tmpfs disk && cp -a before/. disk && {then} || exit 99\n'
              'cd disk; "$@"; r=$?; cd ..; cp -a disk kept; exit $r')
    try:
        r = run([*NAMESPACE, 'sh', '-c', script, 'sh', *command], folder, env)
        if r.status == 99:
            return f'no disk: {r}'
        return judge(p, r, saves.tree(folder / 'kept'), why)
    finally:
        shutil.rmtree(folder)


def size_of(held):
    return sum((len(v) + 4095) // 4096 + 1 if v is not None else 1 for v in held.values())


def few(values, n):
    """n of them, when sampling."""
    values = list(values)
    return values if options.all else random.sample(values, min(n, len(values)))


def small_disks(p, root):
    pages = range(size_of(p.before) + 1, size_of(p.before) + size_of(p.after) + 3)
    for k in few(pages, 1):
        yield f'{4 * k} KiB', lambda k=k: on_disk(p, root, f'disk{k}', f'size={4 * k}k', 'true', 'No space left on device')


def few_inodes(p, root):
    for k in few(range(len(p.before) + 2, len(p.before) + len(p.after) + 3), 1):
        yield f'{k} inodes', lambda k=k: on_disk(p, root, f'inodes{k}', f'nr_inodes={k}', 'true', 'No space left on device')


def read_only(p, root):
    yield 'read only', lambda: on_disk(p, root, 'ro', 'size=64m', 'mount -o remount,ro disk', 'Read-only file system')


def as_nobody():
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def of_somebody_else(p, root):
    """Root may write anywhere, so another user tries."""
    yield 'folder of root', lambda: here(p, root, 'somebody', 'Permission denied', preexec_fn=as_nobody)


# ---- limits ----


def limit(which, n):
    return lambda: resource.setrlimit(which, (n, n))


def size_limits(p, root):
    largest = max((len(v) for v in p.after.values() if v is not None), default=0)
    for n in few({0, 1, 300, 4096, largest // 2, largest - 1}, 2):
        yield f'files of {n} bytes', lambda n=n: here(p, root, f'fsize{n}', 'File too large',
                                                       preexec_fn=limit(resource.RLIMIT_FSIZE, n))


def descriptor_limits(p, root):
    for n in few(range(4, 16), 2):
        yield f'{n} descriptors', lambda n=n: here(p, root, f'nofile{n}', 'Too many open files',
                                                    preexec_fn=limit(resource.RLIMIT_NOFILE, n))


# ---- standard streams ----


def closed(*streams):
    return lambda: [os.close(k) for k in streams]


def streams(p, root):
    def trial(name, streams, quiet):
        folder = root / name
        saves.plant(folder, p.before)
        command, env = command_of(p, root)
        command = [command[0], *(['-q'] if quiet else []), *command[1:]]
        try:
            r = run(command, folder, env, preexec_fn=closed(*streams))
            held = saves.tree(folder)
            state = p.state(held)
            if 2 in streams and r.status == 2 and 1 in streams and not quiet:  # nobody can be told why
                return '' if state in ('old', 'new') else f'{state} output'
            if r.status == 2 and state == 'new' and r.heads == [f'{pathlib.Path(command[0]).name}: standard output: Bad file descriptor']:
                return ''  # a page is written before its report
            return judge(p, r, held, None if p.save.refuses or 1 in streams and not quiet else '')
        finally:
            shutil.rmtree(folder)

    for which in few([(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], 2):
        for quiet in (False, True):
            name = ''.join(map(str, which)) + ('q' if quiet else '')
            yield f'streams {name} closed', lambda which=which, name=name, quiet=quiet: trial('closed' + name, which, quiet)


def full_or_broken(p, root):
    """The save is through when its report cannot be told: the new output, and a status that says so."""
    def trial(name, broken):
        folder = root / name
        saves.plant(folder, p.before)
        command, env = command_of(p, root)
        if broken:
            rd, out = os.pipe()
            os.close(rd)
        else:
            out = os.open('/dev/full', os.O_WRONLY)
        try:
            r = sweep.Run(subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True))
            state = p.state(saves.tree(folder))
            if p.save.refuses or r.status == 0 and state == 'new' and p.command[0].endswith('pginfo'):
                return ''
            if state != 'new' or r.status != (-signal.SIGPIPE if broken else 2):
                return f'{state} output, {r}'
            return '' if broken and not r.err or not broken and 'standard output: No space left on device' in r.err and len(r.heads) == 1 else str(r)
        finally:
            os.close(out)
            shutil.rmtree(folder)

    yield 'full', lambda: trial('full', False)
    yield 'broken pipe', lambda: trial('broken', True)


# ---- inputs and outputs that are none ----

KINDS = {'folder': lambda p: p.mkdir(), 'pipe': lambda p: os.mkfifo(p), 'device': lambda p: p.symlink_to('/dev/zero'),
         'null device': lambda p: p.symlink_to('/dev/null'), 'socket': lambda p: socket.socket(socket.AF_UNIX).bind(str(p)),
         'link to nothing': lambda p: p.symlink_to('nowhere'), 'link to itself': lambda p: p.symlink_to(p.name),
         'empty file': lambda p: p.touch(), 'nothing': lambda p: None}


def odd_files(p, root):
    """In the place of the input: whatever it is, one line and exit 2 at once; of the output: it stays what it is."""
    def as_input(kind):
        folder = root / ('in-' + kind.replace(' ', '-'))
        saves.plant(folder, p.before)
        KINDS[kind](folder / 'odd')
        command, env = command_of(p, root)
        last = input_of(command)
        try:
            r = run([*command[:last], 'odd', *command[last + 1:]], folder, env)
            held = {k: v for k, v in tree_without(folder, 'odd').items()}
            return '' if r.status == 2 and len(r.heads) == 1 and held == p.before else f'{r}, {list(held)}'
        finally:
            shutil.rmtree(folder)

    def as_output(kind):
        folder = root / ('out-' + kind.replace(' ', '-'))
        saves.plant(folder, {})
        KINDS[kind](folder / p.out)
        before = os.lstat(folder / p.out)
        command, env = command_of(p, root)
        try:
            r = run(command, folder, env)
            after = os.lstat(folder / p.out)
            good = r.status == 2 and len(r.heads) == 1 and (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
            return '' if good and list(tree_without(folder, p.out)) == [] else f'{r}, {list(folder.iterdir())}'
        finally:
            shutil.rmtree(folder)

    for kind in few(KINDS, 2) if not p.save.in_place else ():
        yield f'{kind} as input', lambda kind=kind: as_input(kind)
    for kind in few([k for k in KINDS if k not in ('nothing', 'empty file') and not ((p.is_folder or p.save.takes_folder) and k == 'folder')], 2):
        yield f'{kind} as output', lambda kind=kind: as_output(kind)


def tree_without(folder, name):
    path = folder / name
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
    return saves.tree(folder)


def output_is_input(p, root):
    """By its own name, another way to it, a link of either kind: the input stays, whatever --force says."""
    def trial(how):
        folder = root / ('same-' + how.replace(' ', '-'))
        folder.mkdir()
        command, env = command_of(p, root)
        last = input_of(command)
        suffix = p.out[1:]
        mine = folder / f'mine{suffix}'
        mine.write_bytes(pathlib.Path(command[last]).read_bytes())
        whole = mine.read_bytes()
        out = {'itself': f'mine{suffix}', 'a longer way': f'./../{folder.name}/mine{suffix}', 'a link': f'link{suffix}',
               'a hard link': f'hard{suffix}'}[how]
        (folder / f'link{suffix}').symlink_to(f'mine{suffix}')
        os.link(mine, folder / f'hard{suffix}')
        at = command.index(p.out)
        new = [*command[:last], str(mine), *command[last + 1:]]
        new[at] = out
        try:
            r = run([new[0], *(['-f'] if '-f' not in new else []), *new[1:]], folder, env)
            left = sorted(x.name for x in folder.iterdir())
            if r.status != 2 or len(r.heads) != 1 or mine.read_bytes() != whole or left != sorted({f'mine{suffix}', f'link{suffix}', f'hard{suffix}'}):
                return f'{r}, {left}'
            return '' if 'is the input' in r.err else str(r)
        finally:
            shutil.rmtree(folder)

    single = any(a.startswith(str(testdata)) and pathlib.Path(a).name.endswith(p.out[1:]) for a in p.command)
    for how in few(('itself', 'a longer way', 'a link', 'a hard link'), 2) if single and not p.is_folder else ():
        yield f'output is {how}', lambda how=how: trial(how)


# ---- two runs ----


def held_folder(p, root):
    """The folder that is to be replaced is locked until all is written, as by a run that has just made it and is about to end."""
    def trial():
        folder = root / 'held'
        saves.plant(folder, p.before)
        command, env = command_of(p, root)
        beside = folder / f'{p.out}.pg-new'
        try:
            with subprocess.Popen(['flock', p.out, 'sh', '-c', 'echo; read x'], cwd=folder, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE) as holder:
                holder.stdout.readline()
                job = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True)
                end = time.monotonic() + 20
                while not any((beside / x).exists() for x in saves.COMMIT_RECORDS) and job.poll() is None and time.monotonic() < end:
                    time.sleep(0.001)
                time.sleep(0.05)
                waits = job.poll() is None
                holder.stdin.close()
                out, err = job.communicate()
            r = sweep.Run(subprocess.CompletedProcess(command, job.returncode, out, err))
            return judge(p, r, saves.tree(folder), '') or ('' if waits else f'does not wait: {r}')
        finally:
            shutil.rmtree(folder)

    if p.is_folder and '-f' in p.command and p.before:
        yield 'the folder is held', trial


def pairs(of):
    """(name, a save, another one with the same output)."""
    by_name = {p.name: p for p in of}
    for a, b in (('unwrap .h5 over another', 'unwrap full .h5'), ('unwrap .h5', 'wrap full .h5'), ('unwrap .h5 over another', 'wrap .h5'),
                 ('unwrap safetensors', 'convert .safetensors'), ('split npy', 'split npz'), ('split npy', 'split npy'),
                 ('split npy over another', 'split keras over another'), ('convert npy', 'convert npz'),
                 ('unwrap --in-place', 'unwrap --in-place')):
        if a in by_name and b in by_name:
            yield f'{a} | {b}', by_name[a], by_name[b]


def at_once(a, b, root, k):
    folder = root / f'pair{k}'
    saves.plant(folder, a.before if a.save.in_place or '-f' in a.command and '-f' in b.command else {})
    fine = (0, 1, 2) if a.save.in_place else (0, 2)  # 1: there is nothing to unwrap any more
    try:
        runs = [subprocess.Popen(p.command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                for p in random.sample([a, b], 2)]
        ends = [(p, *p.communicate(), p.returncode) for p in runs]
        held = saves.tree(folder)
        own = a.part(held)
        if own not in (a.part(a.after), b.part(b.after)):
            return f'{a.state(held)} output: ' + ' | '.join(f'{status} {err}' for _, _, err, status in ends)
        if any(status not in fine or status == 2 and err.count('\n') != 1 + err.count('\ntry: ') for _, _, err, status in ends) or not any(
                status == 0 for *_, status in ends):
            return ' | '.join(f'{status} {err}' for _, _, err, status in ends)
        if a is not b and '-f' not in a.command and '-f' not in b.command and sum(status == 0 for *_, status in ends) != 1:
            return 'both say that the output is theirs'
        others = sorted(set(held) - set(own))
        return f'leaves {others}' if others else ''
    finally:
        shutil.rmtree(folder)


# ---- all ----

CHECKS = {'small disk': small_disks, 'few inodes': few_inodes, 'read-only disk': read_only, 'somebody else': of_somebody_else,
          'file sizes': size_limits, 'descriptors': descriptor_limits, 'streams': streams, 'stdout': full_or_broken,
          'odd files': odd_files, 'same file': output_is_input, 'held folder': held_folder}
NAMESPACE = ['unshare', '-m'] if os.geteuid() == 0 else ['unshare', '-Urm']


def possible():
    """CHECKS that this machine allows."""
    names = [c for c in CHECKS if (options.only or '') in c]
    r = subprocess.run([*NAMESPACE, 'sh', '-c', 'mount -t tmpfs tmpfs /mnt'], capture_output=True, text=True)
    if r.returncode:
        skipped.append(f'disks (no mounts: {r.stderr.strip()})')
        names = [c for c in names if c not in ('small disk', 'few inodes', 'read-only disk')]
    if os.geteuid() != 0:
        skipped.append('folders of somebody else (not root)')
        names = [c for c in names if c != 'somebody else']
    return names


def main():
    n_good = n_all = 0
    with tempfile.TemporaryDirectory(dir='/dev/shm' if os.access('/dev/shm', os.W_OK) else None) as d:
        root = pathlib.Path(d).resolve()
        root.chmod(0o755)
        (root / 'tmp').mkdir()
        (root / 'tmp').chmod(0o777)
        saves.prepare_inputs(options.tools, testdata, root / 'in')
        of = [saves.Prepared(s, options.tools, root) for s in saves.all_saves(testdata)]
        for check in possible():
            todo = {f'{p.name}, {name}': trial for p in of for name, trial in per_save(CHECKS[check], p, root)}
            good = sweep.judge_all(check, lambda name: todo[name](), [(name,) for name in todo], options.jobs)
            print(f'{check}: {good} of {len(todo)}', flush=True)
            n_good, n_all = n_good + good, n_all + len(todo)
        for name, a, b in pairs(of) if (options.only or '') in 'at once' else ():
            n = 200 if options.all else options.rounds
            good = sweep.judge_all(name, lambda k: at_once(a, b, root, k), [(k,) for k in range(n)], 1)
            print(f'at once, {name}: {good} of {n}', flush=True)
            n_good, n_all = n_good + good, n_all + n
    for what in skipped:
        print(f'skipped: {what}')
    print(f'file tools: {n_good} of {n_all}')
    return 77 if not n_all else n_good != n_all


counter = itertools.count()


def per_save(check, p, root):
    """Each save's trials in a folder of their own, so that they can run at the same time."""
    place = root / f'save{next(counter)}'
    place.mkdir()
    (place / 'tmp').mkdir()
    (place / 'tmp').chmod(0o777)
    return check(p, place)


sys.exit(main())
