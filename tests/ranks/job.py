"""What the tests of several processes share: how a job is started, who its processes are, what they said. Standard library only."""
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from pgbox import chosen  # noqa: E402, F401 (PG_SHARE leaves out some parts of a test)

LAUNCHERS = ('OMPI_', 'PMI_', 'PMIX_', 'HYDRA_', 'MPI_', 'SLURM_')
ENV = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
ENV.update(OMPI_MCA_rmaps_base_oversubscribe='1', OMPI_MCA_btl_base_warn_component_unused='0', OMPI_ALLOW_RUN_AS_ROOT='1',
           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', OMPI_MCA_hwloc_base_binding_policy='none', OMPI_MCA_btl_vader_single_copy_mechanism='none', UCX_TLS='self,posix')  # UCX aborts where another process' memory is gone
RANKS = ('OMPI_COMM_WORLD_RANK', 'PMI_RANK', 'SLURM_PROCID', 'RANK')
RANK = '${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:-$RANK}}}'  # for a shell
bad = []


def expect(what, ok, text=''):
    if not ok:
        bad.append(what)
        print(f'FAIL {what}: {text}', flush=True)
    return bool(ok)


def mpirun_of(mpi, tools):
    """The launcher of an MPI; ends the test as skipped where it, or the plug-in for it, is not there."""
    found = shutil.which(f'mpirun.{mpi}') or shutil.which('mpirun')
    plugin = tools.parent / 'libpg/comm' / f'pg-mpi-{mpi}.so'
    if not found or not plugin.exists():
        print(f'no {"mpirun" if not found else plugin.name}')
        sys.exit(77)
    return found


def start(argv, folder, more=()):
    return subprocess.Popen(list(map(str, argv)), cwd=folder, env={**ENV, **dict(more)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, start_new_session=True)


def finish(p, timeout=240):
    """What a job did in the end; one that does not end is killed, and its status is HANG."""
    try:
        out, err = p.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        try:
            out, err = p.communicate(timeout=5)
        except subprocess.TimeoutExpired:  # a daemon of the launcher holds on to its output
            out = err = ''
        return subprocess.CompletedProcess(p.args, 'HANG', out, err)
    return subprocess.CompletedProcess(p.args, p.returncode, out, err)


def run(argv, folder, timeout=240, more=()):
    return finish(start(argv, folder, more), timeout)


def show(r):
    return f'status {r.returncode}\n{r.stdout[-1500:]}\n{r.stderr[-3000:]}'


def said(text):
    """What pgfit itself said on standard error, beside the launcher."""
    return [x for x in text.split('\n') if x.startswith('pgfit:')]


def same(tools, what, a, b, *how):
    r = subprocess.run([tools / 'pgdiff', *how, a, b], capture_output=True, text=True)
    return expect(what, r.returncode == 0, r.stdout[-1500:] + r.stderr)


@functools.cache
def left_alone(root, *command):
    """A folder in `root` with what one process makes when nobody disturbs it: log.csv and out.weights.h5."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=root))
    r = run(command, folder)
    expect('a run left alone', r.returncode == 0, show(r))
    return folder


def compare(tools, what, folder, want):
    """The weights and the log of two such folders."""
    same(tools, f'{what}: weights', folder / 'out.weights.h5', want / 'out.weights.h5')
    expect(f'{what}: log', (folder / 'log.csv').read_bytes() == (want / 'log.csv').read_bytes(), (folder / 'log.csv').read_text()[-1000:])


def processes(job):
    """Those of pgfit that were started for a job (PG_TEST_JOB in its environment), by their ranks."""
    found = {}
    for p in pathlib.Path('/proc').iterdir():
        if not p.name.isdigit():
            continue
        try:
            if os.path.basename(os.readlink(p / 'exe')) != 'pgfit':
                continue
            env = dict(x.split('=', 1) for x in (p / 'environ').read_text().split('\0') if '=' in x)
            if env.get('PG_TEST_JOB') == job:
                found[int(next((env[k] for k in RANKS if k in env), -1))] = int(p.name)
        except (OSError, ValueError):
            pass
    return dict(sorted(found.items()))


def until(what, p, condition, seconds=60):
    """Waits for something while a job runs; what it was, or None if the job ended or the time was over first."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        if p.poll() is not None:
            return None
        time.sleep(0.005)
    expect(what, False, f'not within {seconds} s')
    return None


def rows_of(folder):
    p = folder / 'log.csv'
    return max(0, p.read_bytes().count(b'\n') - 1) if p.exists() else 0


class Job:
    """n ranks of a shell each, which keeps what its pgfit says and the status that it ends with."""
    n_jobs = 0

    def __init__(self, launcher, n, folder, *command):
        Job.n_jobs += 1
        self.n, self.folder, self.name = n, folder, f'{os.getpid()}-{Job.n_jobs}'
        for k in range(n):
            (folder / f'status.{k}').unlink(missing_ok=True)
            (folder / f'err.{k}').unlink(missing_ok=True)
        own = folder / 'own.sh'
        own.write_text(f'#!/bin/sh\nr={RANK}\n"$@" 2>err.$r\ns=$?\necho $s >status.$r\nexit $s\n')
        own.chmod(0o755)
        self.p = start([*launcher, own, *command], folder, {'PG_TEST_JOB': self.name})

    def begun(self, rows):
        """The processes by rank, once so many epochs are in log.csv; nobody, if the job has ended before."""
        def there():
            found = processes(self.name)
            return len(found) == self.n and rows_of(self.folder) >= rows and found
        return until(f'epoch {rows} by {self.n} ranks', self.p, there) or {}

    def finish(self, timeout=90):
        began = time.monotonic()
        r = finish(self.p, timeout)
        self.seconds = time.monotonic() - began
        for pid in processes(self.name).values():  # a launcher may leave behind what does not listen
            os.kill(pid, signal.SIGKILL)
        return r

    def status(self, k):
        p = self.folder / f'status.{k}'
        text = p.read_text().strip() if p.exists() else ''
        return int(text) if text else None

    def said(self, k):
        p = self.folder / f'err.{k}'
        return said(p.read_text()) if p.exists() else []
