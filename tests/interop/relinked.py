#!/usr/bin/env python3
"""usage: relinked.py --tools DIR --testdata DIR

Files that are made of new links to the tensors of another one, or of themselves: `--in-place`, and copies of sources with
compressed tensors. Needs PG_JUDGE_PYTHON (h5py, numpy) and skips (77) without it. run.py loads such files in Keras; here:

1. A copy holds nothing of its source that nothing leads to, or that a new file does not get. Texts are planted by h5py in each
   place where an HDF5 file keeps something, and taken away again; no fifteen bytes of them are found in the copy.
2. Such a file is a file like any other to h5py and to the HDF Group's tools: it is changed, grown, repacked, and all of our tools
   go on with the result. So is a file that is written afresh, of few tensors or of thousands, and it shows what libhdf5 would.
3. Compressed data that is damaged is the source's fault, not the copy's: the message names the source, and where it is in there."""
import argparse
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from pgbox import Box, finish  # noqa: E402

WRAPPER, PLAIN = 'files/keras-2.2.4/cnn4-g2/wrapper_%s.h5', 'files/keras-2.2.4/cnn4-g2/template_%s.h5'


def weights_of(f):
    return f['model_weights'] if 'model_weights' in f else f


def model_of(f):
    """The group that holds the template's tensors."""
    w = weights_of(f)
    return w['model_1'] if 'model_1' in w else w


def tensors_of(f):
    """[(layer, name, dataset)] in the order of the lists."""
    w, text = weights_of(f), lambda s: s.decode() if isinstance(s, bytes) else s  # noqa: E731
    return [(text(n), text(x), w[text(n)][text(x)]) for n in w.attrs['layer_names'] for x in w[text(n)].attrs['weight_names']]


def values(path):
    with h5py.File(path, 'r') as f:
        return [(layer, name, d.dtype.str, d[()].tobytes()) for layer, name, d in tensors_of(f)]


def compress(tensors):
    """Writes them anew, in deflated chunks of a shape that does not divide theirs."""
    for _, _, d in tensors:
        value, where, name = d[()], d.parent, d.name.rsplit('/', 1)[1]
        del where[name]
        where.create_dataset(name, data=value, chunks=tuple(max(1, n - n // 3) for n in value.shape), compression=4, shuffle=True)


def compress_file(path):
    with h5py.File(path, 'r+') as f:
        compress(tensors_of(f))


# ---- 1: what is planted: how it gets there in one session, and away in the next ----


def first_tensor(f):
    return tensors_of(f)[0][2]


def inner(f):
    return first_tensor(f).parent  # a group that could be linked whole


def long_name(where):
    def put(f, text):
        where(f).create_group('z' + text)

    def away(f, text):
        del where(f)['z' + text]
    return put, away


def attribute(where, value=lambda text: text, name='note', keep=False):
    def put(f, text):
        where(f).attrs[name] = value(text)

    def away(f, text):
        if not keep:
            del where(f).attrs[name]
    return put, away


def another(name):
    """An attribute of the root that is replaced."""
    def put(f, text):
        global old
        old = f.attrs.get(name)
        f.attrs[name] = text

    def away(f, text):
        del f.attrs[name]
        if old is not None:
            f.attrs[name] = old
    return put, away


def dataset(where, name, keep=False):
    def put(f, text):
        where(f).create_dataset(name, data=np.frombuffer(text.encode(), dtype='u1'))

    def away(f, text):
        if not keep:
            del where(f)[name]
    return put, away


def comment(where):
    return lambda f, text: h5py.h5o.set_comment(where(f).id, text.encode(), obj_name=b'.'), lambda f, text: None


def in_lambda(f, text):
    f.attrs['model_config'] = f.attrs['model_config'].replace('"function": ["', '"function": ["' + text)


def behind(f, text):
    f.flush()
    name = f.filename
    f.close()
    with open(name, 'ab') as h:
        h.write(text.encode())


def root(f):
    return f


def vlen(text):
    return np.array([text, text[::-1]], dtype=h5py.string_dtype())


def fixed(text):
    return np.bytes_(text.encode())


# name, put and take away, whether the copy is relinked in spite of it (else a fresh file is as good: where a tensor holds more than
# its values, or where much room would be wasted), bytes of the text.
# Attributes of the root, of layers and of tensors are the user's own: they are kept, if only they are not taken away.
def plants():
    nothing = lambda f, text: None  # noqa: E731
    yield 'nothing', (nothing, nothing), True, 0
    yield 'code of a Lambda', (in_lambda, nothing), True, 1200
    yield 'old description', another('model_config'), True, 1200
    yield 'old training', another('training_config'), True, 1200
    yield 'old attribute of the root', attribute(root, fixed), True, 1200
    yield 'old attribute of a layer', attribute(model_of, fixed), True, 1200
    yield 'old attribute of a group', attribute(inner, fixed), True, 1200
    yield 'old attribute of a tensor', attribute(first_tensor, fixed), False, 1200
    yield 'small old attribute of a group', attribute(inner, fixed), True, 40
    yield 'small old attribute of a tensor', attribute(first_tensor, fixed), False, 40
    yield 'old strings of the root', attribute(root, vlen), False, 1200
    yield 'old strings of a layer', attribute(model_of, vlen), False, 1200
    yield 'old strings of a tensor', attribute(first_tensor, vlen), False, 1200
    yield 'attribute of a group', attribute(inner, fixed, keep=True), True, 1200
    yield 'strings of a group', attribute(inner, vlen, keep=True), True, 1200
    yield 'old name in the root', long_name(root), True, 200
    yield 'old name in a layer', long_name(model_of), True, 200
    yield 'old name in a group', long_name(inner), True, 200
    yield 'old dataset', dataset(root, 'bytes'), True, 1200
    yield 'old dataset in a group', dataset(inner, 'bytes'), True, 1200
    yield 'dataset', dataset(root, 'bytes', keep=True), True, 100
    yield 'dataset in a layer', dataset(model_of, 'bytes', keep=True), True, 100
    yield 'dataset in a group', dataset(inner, 'bytes', keep=True), True, 100
    yield 'comment of a group', comment(inner), True, 1200
    yield 'comment of a tensor', comment(first_tensor), False, 1200
    yield 'behind the end', (nothing, behind), True, 1200


def words(text):
    """One of them is in any 15 bytes of the text."""
    return {t[i:i + 8].encode() for t in (text, text[::-1]) for i in range(0, len(t) - 7, 8)}


def planted(source, to, how, text):
    """Makes the file. What was added is not the last of it when it is taken away: libhdf5 would cut it off."""
    shutil.copyfile(source, to)
    for act in (how[0], lambda f, text: compress(tensors_of(f)[-1:]), how[1]):
        with h5py.File(to, 'r+') as f:
            act(f, text)


class Copies:
    def __init__(self, box, work):
        self.box, self.work = box, work
        self.n, self.bad, self.n_relinked = 0, [], 0
        self.dice = random.Random(8)

    def check(self, what, wrong):
        self.n += 1
        if wrong:
            self.bad.append((what, wrong))

    def copy(self, what, tool, source, want, text, must):
        """One copy, with the proof and without."""
        out = self.work / 'copy.h5'
        held = source.read_bytes()
        self.check(f'{what}: nothing was planted', text and not any(w in held for w in words(text)) and 'the test is of no use')
        for more in ([], ['--skip-verify']):
            r = self.box.tool(tool[0], *tool[1:], '--force', '--no-sync', *more, source, out)
            if r.rc:
                self.check(what, r.show())
                continue
            got = out.read_bytes()
            relinked = same_places(source, out)
            self.n_relinked += relinked
            found = sorted(w for w in words(text) if w in got)
            self.check(f'{what} {more}', f'{len(found)} pieces of the planted text in the copy, {found[:3]}' if found else '')
            self.check(f'{what} {more}', must and not relinked and 'was written afresh: nothing is proven')
            self.check(f'{what} {more}', values(out) != want and 'other tensors')

    def all_of(self, kind):
        """A wrapper and its template of one kind, with all that can be planted."""
        for tool, pattern in ((['pgunwrap'], WRAPPER), (['pgwrap', '--gpus', '2'], PLAIN)):
            source, place = self.work / 'source.h5', self.work / 'planted.h5'
            shutil.copyfile(os.path.join(self.box.data, pattern % kind), source)
            r = self.box.tool(*tool, '--force', '--no-sync', source, self.work / 'plain.h5')
            if r.rc:
                self.check(f'{tool[0]} {kind}', r.show())
                continue
            want = values(self.work / 'plain.h5')
            compress_file(source)
            for name, how, must, n in plants():
                if name == 'code of a Lambda' and (kind, pattern) != ('model', WRAPPER):
                    continue
                text = ''.join(self.dice.choices('abcdefghijklmnopqrstuvwxyz', k=n))
                planted(source, place, how, text)
                self.copy(f'{tool[0]} {kind}, {name}', tool, place, want, text, must)

    def many(self):
        """Thousands of tensors, one of them compressed."""
        source = self.work / 'many.h5'
        names = [f'd{i}/kernel:0' for i in range(2001)]
        with h5py.File(source, 'w', libver='earliest') as f:
            f.attrs['layer_names'] = [b'input_1', b'lambda_1', b'lambda_2', b'model_1', b'd2000']
            for layer in ('input_1', 'lambda_1', 'lambda_2', 'd2000'):
                f.create_group(layer).attrs['weight_names'] = np.zeros(0)
            g = f.create_group('model_1')
            g.attrs['weight_names'] = [n.encode() for n in names]
            text = ''.join(self.dice.choices('abcdefghijklmnopqrstuvwxyz', k=500))
            for i, n in enumerate(names):
                g.create_dataset(n, data=np.full((2, 2), i, 'f4'), **({'chunks': (1, 2), 'compression': 1} if i == 5 else {}))
                if i % 200 == 7:
                    g[n].parent.create_group('y' + text)
                    f.create_dataset(f'old{i}', data=np.frombuffer(text.encode(), 'u1'))
            f.attrs['old'] = text
        with h5py.File(source, 'r+') as f:
            for name in [n for n in f if n.startswith('old')]:
                del f[name]
            for n in names:
                if 'y' + text in g_of(f, n):
                    del g_of(f, n)['y' + text]
            del f.attrs['old']
        want = [(n.split('/')[0], n, '<f4', np.full(4, i, 'f4').tobytes()) for i, n in enumerate(names)]
        self.copy('many tensors', ['pgunwrap'], source, want, text, True)


def make_layers(path, n):
    """Weights of n layers, a group and two tensors each."""
    with h5py.File(path, 'w', libver='earliest') as f:
        f.attrs['layer_names'] = [f'd{i}'.encode() for i in range(n)]
        f.attrs['backend'], f.attrs['keras_version'] = b'tensorflow', b'2.2.4'
        for i in range(n):
            g = f.create_group(f'd{i}')
            g.attrs['weight_names'] = [f'd{i}/kernel:0'.encode(), f'd{i}/bias:0'.encode()]
            g[f'd{i}/kernel:0'] = np.full((2, 3), i, 'f4')
            g[f'd{i}/bias:0'] = np.full(3, -i, 'f4')


def g_of(f, name):
    return f['model_1'][name].parent


def same_places(source, copy):
    """Whether a tensor of the copy lies where one of the source does."""
    with h5py.File(source, 'r') as a, h5py.File(copy, 'r') as b:
        at = {h5py.h5o.get_info(d.id).addr for _, _, d in tensors_of(a)}
        return any(h5py.h5o.get_info(d.id).addr in at for _, _, d in tensors_of(b))


# ---- 2: what others do with such a file ----


class Life:
    def __init__(self, box, work):
        self.box, self.work = box, work
        self.n, self.bad = 0, []

    def need(self, what, wrong):
        self.n += 1
        if wrong:
            self.bad.append((what, wrong))
        return not wrong

    def quiet(self, what, *command):
        """The HDF Group's tools as installed, of another version than h5py's library."""
        if not shutil.which(command[0]):
            return
        r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors='replace')
        complaint = r.stderr or 'rror' in r.stdout and command[0] == 'h5stat'
        self.need(f'{what}: {command[0]}', (r.returncode or complaint) and f'{r.returncode} {r.stdout[-300:]} {r.stderr[-600:]}')

    def tool(self, what, name, *args, fine=0):
        r = self.box.tool(name, *args)
        return self.need(f'{what}: {name}', r.rc != fine and r.show())

    def look(self, what, path):
        small = self.work / 'repacked.h5'
        self.quiet(what, 'h5dump', '-o', os.devnull, path)
        self.quiet(what, 'h5stat', path)
        self.quiet(what, 'h5repack', path, small)
        if small.exists():
            self.quiet(what, 'h5diff', path, small)
            self.need(f'{what}: repacked', values(path) != values(small) and 'other values')
            small.unlink()
        self.tool(what, 'pginfo', '--stats', path)

    def lead(self, what, path):
        """All that a user may do to it, in two sessions."""
        before = values(path)
        self.look(what, path)
        text, numbers = 'grown ' * 300, np.arange(5000, dtype='f8')
        with h5py.File(path, 'r+') as f:
            first, last = tensors_of(f)[0], tensors_of(f)[-1]
            f.attrs['grown'] = text
            first[2].attrs['grown'] = text
            first[2].parent.attrs['grown'] = ['short', text, '']
            f.create_dataset('grown/a/b', data=numbers, chunks=(64,), compression=1)
            f.create_dataset('more', data=numbers)
            first[2].parent.create_dataset('beside', data=numbers)
            value = last[2][...]
            last[2][...] = value[::-1]
        with h5py.File(path, 'r+') as f:
            first, last = tensors_of(f)[0], tensors_of(f)[-1]
            kept = [f.attrs['grown'] == text, first[2].attrs['grown'] == text, list(first[2].parent.attrs['grown']) == ['short', text, ''],
                    np.array_equal(f['grown/a/b'], numbers), np.array_equal(f['more'], numbers),
                    np.array_equal(first[2].parent['beside'], numbers), np.array_equal(last[2], value[::-1])]
            self.need(f'{what}: what was added', not all(kept) and str(kept))
            del f['more'], f['grown/a'], first[2].parent['beside'], f.attrs['grown'], first[2].attrs['grown']
            del first[2].parent.attrs['grown']
            last[2][...] = value
            f.create_dataset('again', data=numbers[::-1])  # where something was deleted
        self.need(f'{what}: values after all that', values(path) != before and 'other values')
        self.look(f'{what}, changed', path)

    def run(self):
        data = self.box.data
        for kind in ('weights', 'model'):
            for what, tool, source in (('unwrapped', ['pgunwrap'], WRAPPER), ('wrapped', ['pgwrap', '--gpus', '2'], PLAIN)):
                if (kind, what) == ('model', 'wrapped'):
                    continue  # makes weights only
                own, source = self.work / f'{what}-{kind}.h5', os.path.join(data, source % kind)
                shutil.copyfile(source, own)
                name = f'{what} {kind} in place'
                if not self.tool(name, *tool, '--no-sync', '--in-place', own):
                    continue
                self.lead(name, own)
                back = ['pgunwrap'] if what == 'wrapped' else ['pgwrap', '--gpus', '2'] if kind == 'weights' else None
                with h5py.File(own, 'r+') as f:
                    del f['again']  # beside weights, it would be out of reach: refused
                if back and self.tool(f'{name}, back', *back, '--no-sync', '--in-place', own):
                    self.look(f'{name}, back', own)
                    self.tool(f'{name}, back', 'pgdiff', own, source)
        copy, source = self.work / 'linked.h5', self.work / 'compressed.h5'
        shutil.copyfile(os.path.join(data, WRAPPER % 'weights'), source)
        compress_file(source)
        if self.tool('relinked copy', 'pgunwrap', '--no-sync', source, copy):
            self.need('relinked copy', not same_places(source, copy) and 'was written afresh: nothing is proven')
            self.lead('relinked copy', copy)
            self.tool('relinked copy', 'pgdiff', copy, os.path.join(data, PLAIN % 'weights'))
        self.afresh()

    def afresh(self):
        """Files of our own writer. A list of names is of fixed width in the first two, of variable length in the others."""
        weights, new = os.path.join(self.box.data, PLAIN % 'weights'), self.work / 'new.h5'
        many, st = self.work / 'layers.h5', self.work / 'new.safetensors'
        make_layers(many, 700)
        for what, tool, source in (('weights', ['pgunwrap'], os.path.join(self.box.data, WRAPPER % 'weights')),
                                   ('model', ['pgunwrap'], os.path.join(self.box.data, WRAPPER % 'model')),
                                   ('weights', ['pgconvert'], weights), ('many layers', ['pgconvert'], many)):
            name = f'afresh, {what} by {tool[0]}'
            if tool[0] == 'pgconvert':
                if not self.tool(name, 'pgconvert', '--force', '--no-sync', source, st):
                    continue
                source = st
            if not self.tool(name, *tool, '--force', '--no-sync', source, new):
                continue
            self.need(name, tool[0] == 'pgunwrap' and same_places(source, new) and 'was relinked: nothing is proven')
            self.same_to_others(name, new)
            self.lead(name, new)

    def same_to_others(self, what, path):
        """libhdf5 copies the objects one by one into a file of its own: what is listed of both is equal but for places."""
        copy = self.work / 'by_libhdf5.h5'
        with h5py.File(path, 'r') as f, h5py.File(copy, 'w', libver='earliest') as g:
            for name in f:
                f.copy(name, g)
            for name, value in f.attrs.items():
                g.attrs.create(name, value, dtype=f.attrs.get_id(name).dtype)
        for command in ('h5dump', '-H'), ('h5ls', '-r', '-v'):
            if not shutil.which(command[0]):
                continue
            texts = [subprocess.run([*command, p], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
                     for p in (path, copy)]
            a, b = ([line for line in t.splitlines()[1:] if 'Location:' not in line and 'Modified:' not in line] for t in texts)
            self.need(f'{what}: {command[0]}', a != b and 'differs from ' + str(copy))
        copy.unlink()


# ---- 3: who is to blame ----

def damaged(box, work):
    """What is wrong with the answers for a source with a damaged chunk, as a copy and in place."""
    source, bad = work / 'damaged.h5', []
    shutil.copy(os.path.join(box.data, WRAPPER % 'weights'), source)
    compress_file(source)
    with h5py.File(source, 'r') as f:
        _, _, d = max(tensors_of(f), key=lambda t: t[2].size)
        name, chunk = d.name[1:], d.id.get_chunk_info(0)
    before = bytearray(source.read_bytes())
    before[chunk.byte_offset + chunk.size // 2] ^= 0xff
    source.write_bytes(before)
    for args, more in ((source, work / 'of damaged.h5'), ''), (('--in-place', source), '; nothing changed'):
        r = box.tool('pgunwrap', *args)
        if r.rc != 2 or r.err.splitlines()[0] != f'pgunwrap: {source}: {name}: compressed data is damaged{more}':
            bad.append(('a damaged chunk', r.show()))
    if source.read_bytes() != before or (work / 'of damaged.h5').exists():
        bad.append(('a damaged chunk', 'something was written'))
    return bad


def main():
    global h5py, np
    p = argparse.ArgumentParser()
    p.add_argument('--tools', required=True)
    p.add_argument('--testdata', required=True)
    a = p.parse_args()
    judge = os.environ.get('PG_JUDGE_PYTHON')
    if not judge or not shutil.which(judge):
        print('needs PG_JUDGE_PYTHON')
        return 77
    if not os.environ.get('PG_RELINKED_JUDGE'):
        os.environ['PG_RELINKED_JUDGE'] = '1'
        os.execv(judge, [judge, *sys.argv])
    import h5py
    import numpy as np
    box = Box(a.tools, None, a.testdata)
    with tempfile.TemporaryDirectory() as d:
        copies, life = Copies(box, pathlib.Path(d)), Life(box, pathlib.Path(d))
        for kind in ('weights', 'model'):
            copies.all_of(kind)
        copies.many()
        life.run()
        blamed = damaged(box, pathlib.Path(d))
    print(f'{copies.n_relinked} copies were relinked')
    return finish('relinked', copies.bad + life.bad + blamed, copies.n + life.n + 3)


if __name__ == '__main__':
    sys.exit(main())
