"""What the sweeps have in common: a command is run once per system call and fault, and what it leaves is judged.

A fault is what faultrun (beside this file) does at a call: an error, a short count, a signal, SIGKILL. FAULTS has
those of all sweeps under the names they are printed with; "+" goes on failing from that call on.

A sweep tries a sample, another one each time; --all, or PG_FAULTS=all in the environment, tries every call with
every fault. Standard library only."""
import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import signal
import subprocess
import sys

KILLS = {'kill': ['-a', 'kill'], 'killafter': ['-a', 'killafter'], 'half': ['-a', 'half']}
FAULTS = {**KILLS,
          'ENOSPC': ['-a', 'ENOSPC'], 'ENOSPC+': ['-s', '-a', 'ENOSPC'],
          'EIO': ['-a', 'EIO'], 'EIO+': ['-s', '-a', 'EIO'],
          'EINTR': ['-a', 'EINTR'], 'EINTR+': ['-m', '20', '-a', 'EINTR'],  # for ever would be a hang, as it is with any program
          'ESTALE': ['-a', 'ESTALE'], 'EDQUOT': ['-a', 'EDQUOT'],
          'torn': ['-m', '2', '-a', 'torn'],  # half a write, then EIO
          'short': ['-a', 'short'], 'short+': ['-s', '-a', 'short'],
          'SIGINT': ['-a', 'SIGINT'], 'SIGTERM': ['-a', 'SIGTERM'], 'SIGINT+': ['-s', '-a', 'SIGINT']}


def options(doc, *more, faultrun=True):
    """Reads the command line; `more` are (name, keywords) of further options."""
    o = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    o.add_argument('--tools', required=True, type=pathlib.Path, help='folder of the tools')
    o.add_argument('--faultrun', required=faultrun, type=pathlib.Path)
    o.add_argument('--all', action='store_true', default=os.environ.get('PG_FAULTS') == 'all', help='no sampling')
    o.add_argument('--only', help='the cases whose name contains this')
    o.add_argument('--jobs', type=int, default=2)
    o.add_argument('--seed', type=int, default=random.randrange(1 << 30), help='of the sample')
    for name, keywords in more:
        o.add_argument(name, **keywords)
    o = o.parse_args()
    o.tools, o.faultrun = o.tools.resolve(), o.faultrun and o.faultrun.resolve()
    random.seed(o.seed)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what is started in the background would never hear it
    if not o.all:
        print(f'a sample of seed {o.seed}; --all or PG_FAULTS=all for everything')
    return o


class Run:
    """A command's end: status (128 + signal), its stderr without faultrun's line, calls counted, the call acted on."""

    def __init__(self, r):
        lines = r.stderr.splitlines()
        own = next((s for s in lines if s.startswith('faultrun: counted=')), '')
        self.status, self.out = r.returncode, r.stdout
        self.err = ''.join(s + '\n' for s in lines if not s.startswith('faultrun: '))
        self.heads = [s for s in self.err.splitlines() if not s.startswith(('  ', 'try: ', 'note: '))]
        at = re.match(r'faultrun: counted=(\d+) acted=(\d+) status=\d+ at=(\S+) (\S+)', own)
        self.counted, self.acted = (int(at.group(1)), int(at.group(2))) if at else (0, 0)
        self.at = at.group(4) if at else '-'  # name of the system call

    def __str__(self):
        return f'status {self.status} at {self.at}: {self.err}'


def run(command, cwd=None, trace=None, env=None, timeout=120):
    """trace: the arguments of faultrun, program first; None runs the command alone."""
    full = [*trace, '-t', str(timeout), '--', *command] if trace else command
    return Run(subprocess.run(full, cwd=cwd, capture_output=True, text=True, errors='replace', env=env,
                              timeout=timeout + 60, stdin=subprocess.DEVNULL))


def cannot_trace():
    print('skipped: programs cannot be traced here (ptrace)')
    sys.exit(77)


def every(n_calls, step, fault):
    """(n, fault) of every step-th call, from a random one on."""
    return [(n, fault) for n in range(random.randint(1, step), n_calls + 1, step)]


def sample(plan, n, all_of_it):
    """n of the plan, taken evenly over it."""
    if all_of_it or len(plan) <= n:
        return plan
    step = len(plan) / n
    at = random.random() * step
    return [plan[int(at + i * step)] for i in range(n) if int(at + i * step) < len(plan)]


def judge_all(what, trial, plan, jobs):
    """Runs trial(*job), which gives what was wrong or '', for each job of the plan; prints failures; how many passed."""
    good = bad = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        todo = {pool.submit(trial, *job): job for job in plan}
        for t in concurrent.futures.as_completed(todo):
            try:
                wrong = t.result()
            except (OSError, ValueError, subprocess.SubprocessError) as e:
                wrong = f'{type(e).__name__}: {e}'
            good += not wrong
            bad += bool(wrong)
            if wrong and bad <= 10:
                print(f'FAIL {what}: {" ".join(map(str, todo[t]))}: {wrong}')
    if bad > 10:
        print(f'FAIL {what}: and {bad - 10} more')
    sys.stdout.flush()
    return good
