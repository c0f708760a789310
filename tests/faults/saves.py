"""Every way in which a file tool saves, and how to tell what a save that went wrong has left.

A Save is a command whose output is `out`, in the folder where the command runs; `old` is a command that made what
stood there before. Prepared (below) runs both once, so that what is left can be compared byte by byte with the
old output and the new one. Standard library only."""
import pathlib
import re
import shutil
import subprocess
import sys

TEMPORARY = re.compile(r'(^|/)\.[^/]+\.pg-\w{6}$')
COMMIT_RECORDS = ('manifest.json', 'model.safetensors.index.json', 'model.weights.json')


class Save:
    def __init__(self, name, command, out, old=None, refuses=False, in_place=False, relinked=None, litter=0, beside=(),
                 takes_folder=False):
        self.name, self.command, self.out, self.old = name, command, out, old  # old: a command, or a file to copy
        self.refuses = refuses  # the right answer is exit 2, with the old output as it is
        self.takes_folder = takes_folder  # into one that is there, it writes shards
        self.in_place = in_place  # the output is the input: old, perhaps with a tail that nothing leads to, or new
        self.litter = litter  # bytes behind the file's end, as a killed run leaves them
        self.beside = beside  # files beside the output that belong to it, as it says
        self.relinked = relinked  # the input whose tensors stay where they are in the output


def all_saves(testdata):
    """Paths are of the test data, or (from 'in/') of what prepare_inputs() makes; the tool is the first word."""
    f = testdata / 'files'
    k2, k3, k31, torch = f / 'keras-2.2.4/cnn4-g2', f / 'keras-3.6.0-native/cnn4', f / 'keras-3.10.0-native/cnn4', f / 'pytorch/cnn'
    gzip = testdata / 'extra/keras-2.15/gzip'  # compressed tensors stay as they are: such files are relinked
    weights, model = ['pgunwrap', k2 / 'wrapper_weights.h5'], ['pgunwrap', k2 / 'wrapper_model.h5']
    full = k2 / 'template_model.h5'
    yield Save('unwrap .h5', [*weights, 'o.h5'], 'o.h5')
    yield Save('unwrap .h5 over another', [*weights, '-f', 'o.h5'], 'o.h5', [*model, 'o.h5'])
    yield Save('unwrap .h5 where one is', [*weights, 'o.h5'], 'o.h5', [*model, 'o.h5'], refuses=True)
    yield Save('unwrap full .h5', [*model, '-f', 'o.h5'], 'o.h5', [*weights, 'o.h5'])
    yield Save('unwrap --no-sync --skip-verify', [*model, '-f', '--no-sync', '--skip-verify', 'o.h5'], 'o.h5', [*weights, 'o.h5'])
    yield Save('unwrap --like', ['pgunwrap', '-f', '--like', k2 / 'template.json', k2 / 'wrapper_weights.h5', 'o.h5'], 'o.h5', [*model, 'o.h5'])
    yield Save('unwrap .keras', ['pgunwrap', '-f', k3 / 'wrapper.keras', 'o.keras'], 'o.keras', ['pgconvert', k3 / 'template.keras', 'o.keras'])
    yield Save('unwrap .weights.h5', ['pgunwrap', k3 / 'wrapper.weights.h5', 'o.weights.h5'], 'o.weights.h5')
    yield Save('unwrap shards', ['pgunwrap', k31 / 'sharded_wrapper/wrapper.weights.json', 'o.weights.h5'], 'o.weights.h5')
    yield Save('unwrap safetensors', ['pgunwrap', '-f', torch / 'dataparallel.safetensors', 'o.safetensors'], 'o.safetensors',
               ['pgconvert', full, 'o.safetensors'])
    yield Save('unwrap .pt', ['pgunwrap', torch / 'dataparallel.pt', 'o.safetensors'], 'o.safetensors')
    yield Save('wrap .h5', ['pgwrap', '-f', '--gpus', '2', k2 / 'template_weights.h5', 'o.h5'], 'o.h5', [*model, 'o.h5'])
    yield Save('wrap full .h5', ['pgwrap', '--like', k2 / 'wrapper_model.h5', full, 'o.h5'], 'o.h5')
    yield Save('wrap .weights.h5', ['pgwrap', '--like', k3 / 'wrapper.weights.h5', k3 / 'template.weights.h5', 'o.weights.h5'], 'o.weights.h5')
    yield Save('relink .h5', ['pgunwrap', '-f', '--like', gzip / 'template.json', gzip / 'wrapper_weights.h5', 'o.h5'], 'o.h5',
               [*model, 'o.h5'], relinked=gzip / 'wrapper_weights.h5')
    yield Save('relink full .h5', ['pgunwrap', gzip / 'wrapper_model.h5', 'o.h5'], 'o.h5', relinked=gzip / 'wrapper_model.h5')
    yield Save('relink --no-sync --skip-verify', ['pgwrap', '-f', '--gpus', '2', '--no-sync', '--skip-verify', gzip / 'template_weights.h5', 'o.h5'],
               'o.h5', [*model, 'o.h5'], relinked=gzip / 'template_weights.h5')
    yield Save('unwrap --in-place', ['pgunwrap', '--in-place', 'o.h5'], 'o.h5', k2 / 'wrapper_weights.h5', in_place=True)
    yield Save('unwrap full --in-place', ['pgunwrap', '--in-place', 'o.h5'], 'o.h5', k2 / 'wrapper_model.h5', in_place=True)
    yield Save('unwrap --in-place --no-sync', ['pgunwrap', '--in-place', '--no-sync', 'o.h5'], 'o.h5', k2 / 'wrapper_model.h5', in_place=True)
    yield Save('unwrap --in-place after a killed run', ['pgunwrap', '--in-place', 'o.h5'], 'o.h5', k2 / 'wrapper_weights.h5', in_place=True, litter=9000)
    yield Save('wrap --in-place', ['pgwrap', '--gpus', '2', '--in-place', 'o.h5'], 'o.h5', k2 / 'template_weights.h5', in_place=True)
    for form, of in (('npy', full), ('npz', full), ('safetensors', full), ('keras', k3 / 'template.weights.h5')):
        split = ['pgsplit', '--format', form, '--max-tensors', '3', of]
        yield Save(f'split {form}', [*split, 'o'], 'o')
        if form in ('npy', 'keras'):
            yield Save(f'split {form} over another', [*split, '-f', '--sha256', 'o'], 'o', ['pgsplit', '--format', 'npz', torch / 'single.safetensors', 'o'])
    yield Save('split -j 3', ['pgsplit', '-j', '3', full, 'o'], 'o')
    yield Save('join npy', ['pgjoin', 'in/npy', 'o.h5'], 'o.h5')
    yield Save('join npz', ['pgjoin', '-f', 'in/npz', 'o.h5'], 'o.h5', [*model, 'o.h5'])
    yield Save('join safetensors', ['pgjoin', 'in/safetensors', 'o.safetensors'], 'o.safetensors')
    yield Save('join keras', ['pgjoin', 'in/keras', 'o.weights.h5'], 'o.weights.h5')
    for name in 'dcp-fsdp2/ckpt', 'zero3/ckpt', 'megatron-gelu-tp2-pp2/ckpt', 'orbax-ocdbt-zarr3/ckpt', 'tf-mirrored':
        yield Save(f'join {name}', ['pgjoin', testdata / 'modern' / name, 'o.safetensors'], 'o.safetensors', takes_folder=True)
    yield Save('convert .onnx', ['pgconvert', '-f', full, 'o.onnx'], 'o.onnx')
    outside, data = ['pgconvert', '-f', '--external-data'], ('o.onnx.data', 'o.onnx.data-2')
    yield Save('convert .onnx --external-data', [*outside, full, 'o.onnx'], 'o.onnx', beside=data)
    yield Save('convert .onnx --external-data over another', [*outside, full, 'o.onnx'], 'o.onnx', [*outside, k3 / 'template.keras', 'o.onnx'], beside=data)
    # another model there has the same test data: a kill may leave the new ones beside the old model, as pg-formats says
    checked = ['pgconvert', '-f', '--check', k2 / 'x0.npy', full]
    rows = [f'o.onnx.test{k}' for k in ('', '/test_data_set_0', '/test_data_set_0/input_0.pb', '/test_data_set_0/output_0.pb')]
    yield Save('convert .onnx --check', [*checked, 'o.onnx'], 'o.onnx', beside=rows)
    yield Save('convert .onnx --check over another', [*checked, 'o.onnx'], 'o.onnx', [*checked, '--opset', '17', 'o.onnx'], beside=rows)
    for to, more in (('h5', []), ('weights.h5', []), ('keras', []), ('safetensors', []), ('safetensors', ['--layout', 'pytorch']),
                     ('safetensors', ['--dtype', 'float16'])):
        yield Save(' '.join(['convert', '.' + to, *more]), ['pgconvert', '-f', *more, full, 'o.' + to], 'o.' + to,
                   ['pgconvert', k3 / 'template.keras', 'o.' + to] if not more else None)
    for form in ('npy', 'npz'):
        yield Save(f'convert {form}', ['pgconvert', '--to', form, full, 'o'], 'o')
    yield Save('info --html', ['pginfo', '-f', '--html', 'o.html', full], 'o.html', ['pginfo', '--html', 'o.html', torch / 'single.safetensors'])


def prepare_inputs(tools, testdata, folder):
    """The splits that are joined."""
    f = testdata / 'files'
    folder.mkdir()
    for form in ('npy', 'npz', 'safetensors', 'keras'):
        of = f / ('keras-3.6.0-native/cnn4/template.weights.h5' if form == 'keras' else 'keras-2.2.4/cnn4-g2/template_model.h5')
        subprocess.run([tools / 'pgsplit', '-q', '--no-sync', '--format', form, '--max-tensors', '4', of, folder / form], check=True)


def tree(folder):
    """What a folder holds: bytes by relative name; of a folder None."""
    return {p.relative_to(folder).as_posix(): None if p.is_dir() else p.read_bytes() for p in folder.rglob('*')}


def plant(folder, what):
    """The reverse: makes the folder hold that."""
    folder.mkdir()
    for name in sorted(what):
        if what[name] is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(what[name])


class Prepared:
    """A save with its command for this machine, what stands in the folder before (tree), and after a run in peace."""

    def __init__(self, save, tools, root):
        self.save, self.name, self.out = save, save.name, save.out
        self.command = self.absolute(save.command, tools, root)
        work = root / 'prepared'
        work.mkdir()
        if isinstance(save.old, pathlib.Path):
            self.core = save.old.read_bytes()
            (work / save.out).write_bytes(self.core + b'litter' * save.litter)
        elif save.old:
            subprocess.run(self.absolute(save.old, tools, root), cwd=work, check=True, capture_output=True)
        self.before = tree(work)
        self.mode_before = self.mode(work)
        r = subprocess.run(self.command, cwd=work, capture_output=True, text=True)
        if r.returncode != (2 if save.refuses else 0):
            sys.exit(f'{save.name} in peace: {r.returncode} {r.stderr}')
        self.after = self.uncloned = tree(work)
        self.mode_after = self.mode(work)
        if save.beside:  # the next time its data have the other name
            subprocess.run(self.command, cwd=work, check=True, capture_output=True)
            self.again = tree(work)
        self.is_folder = (work / save.out).is_dir()
        shutil.rmtree(work)
        if save.relinked and not self.is_relinked(save.relinked.read_bytes(), self.after[save.out]):
            sys.exit(f'{save.name}: was written afresh')

    @staticmethod
    def is_relinked(source, out):
        """Much of it is where it was in the source; of what is written afresh, little by chance."""
        return sum(a == b != 0 for a, b in zip(source, out)) > 1000

    @staticmethod
    def absolute(command, tools, root):
        return [str(tools / command[0])] + [str(root / a) if isinstance(a, str) and a.startswith('in/') else str(a) for a in command[1:]]

    def mode(self, folder):
        path = folder / self.out
        return path.stat().st_mode & 0o7777 if path.exists() else None

    def part(self, held):
        """The output, and nothing else: temporaries in a folder are not of it."""
        return {k: v for k, v in held.items() if (k == self.out or k.startswith(self.out + '/') or k in self.save.beside) and not TEMPORARY.search(k)}

    def state(self, held):
        """'new', 'old', 'begun' (a folder without its commit record, which the same command completes) or what is wrong."""
        own = self.part(held)
        if self.save.beside:
            return self.held_with(own)[0]
        if own in (self.part(self.after), self.part(self.uncloned)) or self.save.litter and own[self.out].startswith(self.after[self.out]):
            return 'new'  # the litter is cut off last
        if own == self.part(self.before) or self.save.in_place and own[self.out].startswith(self.core):
            return 'old'
        if not own:
            return 'lost'
        if self.is_folder and not self.save.old and not self.committed(held):
            return 'begun'
        return 'broken'

    def held_with(self, own):
        """The same of an output of several files; and those that belong to none: data before a model says so, or after another did."""
        for state, files in ('new', self.part(self.after)), ('new', self.part(self.again)), ('old', self.part(self.before)):
            if all(own.get(k) == v for k, v in files.items()):
                return state, sorted(set(own) - set(files))
        return 'broken', []

    def committed(self, held):
        """The last file of a split is there; a manifest beside shards of other formats is not the last."""
        return any(f'{self.out}/{name}' in held for name in COMMIT_RECORDS
                   if name != 'manifest.json' or not any(f'{self.out}/{x}' in self.after for x in COMMIT_RECORDS[1:]))

    def tail(self, held):
        """Whether bytes are behind the old file, which was about to be changed in place, that were not there before."""
        now = held.get(self.out)
        return self.save.in_place and now not in (None, self.before[self.out], self.core) and now.startswith(self.core)

    def others(self, held):
        """Names that are neither the output nor were there before; within a folder that was begun, temporaries."""
        if self.save.beside:
            known = {*self.before, *self.part(held)}
            return self.held_with(self.part(held))[1] + sorted(k for k in held if k not in known)
        return ['a tail'] * self.tail(held) + sorted(k for k in held if k not in self.before and k not in self.part(self.after))
