#!/usr/bin/env python3
"""users.py --tools DIR --testdata DIR --folder DIR [--runtime]: what somebody meets who trains on GPUs: how they are named,
what is missing, how much fits, what -v tells; on GPUs of plain C (host.h), which lie in --folder beside a libnvidia-ml.so.1
(nvml_host.c). --runtime: also over the calls of the CUDA runtime (cudart_host.c)."""
import argparse
import array
import ctypes
import json
import os
import re
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
from pgbox import Folder, run  # noqa: E402

options = argparse.ArgumentParser()
for name in ('--tools', '--testdata', '--folder'):
    options.add_argument(name, required=True, type=os.path.abspath)
options.add_argument('--runtime', action='store_true')
options = options.parse_args()
golden = os.path.join(options.testdata, 'golden')
bad = 0


def plugin(name):
    return os.path.join(options.folder, name)


def tool(name, *args, cwd='/', **env):
    base = {k: v for k, v in os.environ.items() if k not in ('CUDA_VISIBLE_DEVICES', 'LD_LIBRARY_PATH')}
    return run([os.path.join(options.tools, name)] + [str(a) for a in args], cwd=cwd, timeout=120,
               env={**base, 'LC_ALL': 'C.UTF-8', 'PG_CUDA_PLUGIN': plugin('pg-cuda-fake.so'), **env})


def fit(*args, model='mlp_digits', **more):
    folder = os.path.join(golden, model)
    return tool('pgfit', folder + '/model.json', '--data', folder + '/data.npz', '--loss', 'categorical_crossentropy', *args, **more)


def expect(r, rc, err='', hint='', out=''):
    """err: the one line; hint: in its "try:"; out: a pattern somewhere in the output."""
    global bad
    tries = ' '.join(x[5:] for x in r.lines if x.startswith('try: '))
    if (r.rc == rc and (not err or r.heads == [err]) and (not hint or hint in tries) and re.search(out, r.out)
            and (rc == 0 or 'pgcheck' in r.argv[0] or len(r.heads) == 1)):
        return
    bad += 1
    print('--- expected exit %s, %r, try %r, %r\n%s' % (rc, err, hint, out, r.show()))


# ---- names ----

expect(fit('--gpus', '2'), 0, out=r'2 devices \(cuda:0, cuda:1: GPU of plain C 0\), data-parallel, batch 32 = 16\+16\n')
expect(fit('--gpus', '1,0'), 0, out=r'\(cuda:1, cuda:0: GPU of plain C 1\)')
expect(fit('--gpus', '1,'), 0, out=r'1 device \(cuda:1: GPU of plain C 1\)')
expect(fit('--gpus', 'all'), 0, out=r'\(cuda:0, cuda:1: ')
expect(fit('--devices', 'gpu:1'), 0, out=r'1 device \(gpu:1: GPU of plain C 1\)')
for words in '0', 'x', '-1', '', '1,x', ',1':
    expect(fit('--gpus', words), 2, 'pgfit: --gpus %s: write a number of GPUs, their ids, or all' % (words or '""'), '--gpus 0, (this one)')
expect(fit('--gpus', '3'), 2, 'pgfit: cuda:2 does not exist: there are 2')
expect(fit('--gpus', '0,7'), 2, 'pgfit: cuda:7 does not exist: there are 2')
expect(fit('--gpus', '1,', FAKE_CUDA_DEVICES='1'), 2, 'pgfit: cuda:1 does not exist: there is 1')
expect(fit('--gpus', '2', '--devices', 'cuda:0'), 2, 'pgfit: --gpus and --devices exclude each other', '--devices cuda:0,cuda:1')
with Folder() as folder:
    config = fit('--gpus', '1,0', '--print-config', '-o', 'x.h5', cwd=folder.path)
    with open(folder / 'run.json', 'w') as f:
        f.write(config.out)
    expect(tool('pgfit', '--config', 'run.json', cwd=folder.path), 0, out=r'\(cuda:1, cuda:0: ')
    expect(tool('pgfit', '--config', 'run.json', '--devices', 'cpu:0', '--force', cwd=folder.path), 0, out=r'\(cpu:0: ')
    expect(tool('pgfit', '--config', 'run.json', '--gpus', '1', '--force', cwd=folder.path), 0, out=r'\(cuda:0: ')
expect(fit('--devices', '/gpu:0'), 2, 'pgfit: "/gpu:0" is not a device: the devices are cpu, cuda and, for comparison, ref', 'cuda:0')
expect(fit('--devices', 'all'), 2, 'pgfit: "all" is not a device: the devices are cpu, cuda and, for comparison, ref', 'auto')
expect(fit('--devices', ''), 2, 'pgfit: --devices: no name given', '--devices auto')
expect(fit('--devices', 'cuda:1,'), 0, out=r'1 device \(cuda:1: ')
expect(fit('--devices', 'cuda:0,cpu:0'), 3, 'pgfit: devices: cuda and cpu cannot share a batch')
expect(fit('--devices', 'auto'), 0, out=r'\(cuda:0, cuda:1: ')
expect(fit('--devices', 'auto', FAKE_CUDA_DEVICES='0'), 0, out=r'note: training on the CPU: no CUDA-capable device is detected\n(.*\n)*.*cpu:0')
expect(fit('--gpus', '2', '--cpu-merge', '--cpu-relocation'), 0)
expect(fit('--cpu-merge', '--cpu-relocation'), 0, out='cpu:0')
expect(fit('--gpus', '1', '--json'), 0, out='"devices": "cuda:0", "gpu": "GPU of plain C 0"')

# ---- what is missing ----

expect(fit('--gpus', '1', PG_CUDA_PLUGIN='/nowhere/pg-cuda.so'), 3,
       'pgfit: cuda:0: PG_CUDA_PLUGIN names /nowhere/pg-cuda.so, which does not exist', 'unset PG_CUDA_PLUGIN')
with Folder() as folder:
    shutil.copy(os.path.join(options.tools, 'pgfit'), folder / 'pgfit')  # nothing lies beside it
    data = os.path.join(golden, 'mlp_digits')
    r = run([folder / 'pgfit', data + '/model.json', '--data', data + '/data.npz', '--loss', 'mse', '--gpus', '1'],
            env={'LC_ALL': 'C.UTF-8', 'LD_LIBRARY_PATH': os.path.join(options.tools, '..', 'libpg')})
    if 'pg-cuda.so' in r.err:  # else libpg has one beside it
        expect(r, 3, 'pgfit: cuda:0: the GPU part of libpg, pg-cuda.so, is missing: this libpg was built without CUDA, '
               'or the file was left out when it was installed', '-Dcuda=enabled')
expect(fit('--gpus', '1', FAKE_CUDA_DEVICES='0'), 3, 'pgfit: no CUDA-capable device is detected')
expect(fit('--gpus', '1', PG_CUDA_PLUGIN=plugin('other_abi.so')), 3)

# ---- how much fits ----

for model, devices, memory in (('cnn_bn', 'cuda:0', 300000), ('cnn_bn', 'cuda:0', 2000000), ('cnn_bn', 'cuda:0,cuda:1', 1000000),
                               ('cnn_bn', 'cuda:0,cuda:0', 1000000), ('mlp_digits', 'cuda:0', 300000)):
    def with_batch(n):
        return fit('-q', '--devices', devices, '--batch-size', n, model=model, FAKE_CUDA_MEMORY=str(memory))
    r = with_batch(384)
    expect(r, 2)
    said = re.fullmatch(r'pgfit: %s: out of memory: a batch of 384 needs [0-9.]+ [kM]B \(layer (conv2d|fc1): [0-9.]+ [kM]B\), '
                        r'[0-9.]+ [kM]B are free; with this model the largest batch is (\d+)' % devices, r.heads[0] if r.heads else '')
    if not said:
        bad += 1
        print(r.show())
        continue
    most = int(said.group(2))
    expect(r, 2, hint='--batch-size %d; with --accumulate %d the update is that of 384 rows' % (most, -(-384 // most)))
    expect(with_batch(most), 0)
    expect(with_batch(most * 21 // 20 + 1), 2)
expect(fit('--devices', 'cuda:0', FAKE_CUDA_MEMORY='98500'), 2, hint='')

# ---- -v ----

counts = {'LD_LIBRARY_PATH': options.folder}
r = fit('--gpus', '2', '-v', '--epochs', '2', **counts)
expect(r, 0, out=r'(?s)epoch 1/2.*\ncuda:0: 4\.2 GB of 16\.0 GB in use, busy 75 %\ncuda:1: 1\.0 GB of 16\.0 GB in use\nepoch 2/2')
expect(fit('--gpus', '1,1', '-v', **counts), 0, out=r'\nepoch 1/1 .*\ncuda:1: 1\.0 GB of 16\.0 GB in use\n1 epoch')
r = fit('--gpus', '2', '-v', '--json', **counts)
found = [e for e in map(json.loads, r.out.splitlines()) if e['event'] == 'gpu']
if [(e['device'], e['used_bytes'], e.get('busy')) for e in found] != [('cuda:0', 4200000000, 0.75), ('cuda:1', 1000000000, None)]:
    bad += 1
    print(r.show())
for args, env in ((('--gpus', '2'), counts), (('--gpus', '2', '-v'), {}), (('-v',), counts)):
    r = fit(*args, **env)
    expect(r, 0)
    if 'in use' in r.out and not (env == {} and os.path.exists('/dev/nvidiactl')):
        bad += 1
        print('memory in use was not asked for, or is of no GPU here\n' + r.show())

# ---- a device that does not answer ----

r = fit('--gpus', '2', '--checkpoint', '/dev/null/x.h5', FAKE_CUDA_ABSENT='1', FAKE_CUDA_PATIENCE='1')
expect(r, 2)  # and before it is waited for
for absent, other in (('1', '0'), ('0', '1')):
    expect(fit('--gpus', '2', '-q', FAKE_CUDA_ABSENT=absent, FAKE_CUDA_PATIENCE='1'), 5,
           'pgfit: cuda:%s waited 300 seconds for another GPU' % other)

# ---- pgcheck ----

with Folder() as folder:
    data = os.path.join(golden, 'mlp_digits')
    r = fit('-q', '--devices', 'cpu:0', '--full-model', '-o', 'good.h5', cwd=folder.path)
    expect(r, 0)
    expect(tool('pgfit', data + '/model.json', '--weights', 'good.h5', '--predict', data + '/data.npz', '--out', 'y.npy',
                cwd=folder.path), 0)
    check = '--device', 'cuda:0', '--input', data + '/data.npz', '--expect', 'y.npy'
    expect(tool('pgcheck', *check, 'good.h5', cwd=folder.path), 0, out='(?m)^ok +predicted')
    expect(tool('pgcheck', '--model', data + '/model.json', *check, data + '/init_weights.h5', cwd=folder.path), 1,
           out='(?m)^not ok +predicted')
    with open(folder / 'half.h5', 'wb') as f, open(folder / 'good.h5', 'rb') as whole:
        f.write(whole.read()[:3000])
    r = tool('pgcheck', *check, 'half.h5', cwd=folder.path)
    expect(r, r.rc if r.rc in (1, 2) else 1)
    expect(tool('pgcheck', '--device', 'cuda:4', '--input', data + '/data.npz', '--expect', 'y.npy', 'good.h5', cwd=folder.path), 2,
           'pgcheck: cuda:4 does not exist: there are 2')
    # A file that a wrapper wrote, and the template in it; and a model that they are not of.
    keras = os.path.join(options.testdata, 'files', 'keras-2.2.4', 'cnn4-g2')
    check = '--device', 'cuda:0', '--input', keras + '/x0.npy', '--expect', keras + '/y0.npy'
    expect(tool('pgcheck', *check, keras + '/template_model.h5', cwd=folder.path), 0, out='(?m)^ok +predicted')
    r = tool('pgcheck', *check, '--no-wrapper', keras + '/wrapper_model.h5', cwd=folder.path)
    cpu = tool('pgcheck', '--device', 'cpu:0', *check[2:], '--no-wrapper', keras + '/wrapper_model.h5', cwd=folder.path)
    expect(r, 1, out='(?m)^not ok +wrapper')
    if re.sub('difference .*', '', r.out) != re.sub('difference .*', '', cpu.out):
        bad += 1
        print('not as on the CPU\n' + r.show() + cpu.show())
    expect(tool('pgcheck', '--model', data + '/model.json', *check, keras + '/template_weights.h5', cwd=folder.path), 1,
           out='(?m)^not ok +structure')

# ---- what cannot be recorded is run ----


def values(path):
    """All numbers of a .safetensors of float32."""
    with open(path, 'rb') as f:
        n, = struct.unpack('<Q', f.read(8))
        head = json.loads(f.read(n))
        rest = f.read()
    return {k: array.array('f', rest[v['data_offsets'][0]:v['data_offsets'][1]]) for k, v in head.items() if k != '__metadata__'}


def apart(a, b):
    a, b = values(a), values(b)
    if sorted(a) != sorted(b):
        return float('inf')
    return max(abs(x - y) for k in a for x, y in zip(a[k], b[k])) / max(abs(x) for k in a for x in a[k])


with Folder() as folder:
    for name, env in (('a', {}), ('b', {'FAKE_CUDA_REFUSES': 'record'})):
        expect(fit('-q', '--weights', os.path.join(golden, 'cnn_bn', 'init_weights.h5'), '--gpus', '2', '--deterministic', '-o',
                   name + '.safetensors', model='cnn_bn', cwd=folder.path, **env), 0)
    if apart(folder / 'a.safetensors', folder / 'b.safetensors') != 0:
        bad += 1
        print('without recordings the end is another one')

# ---- from one kind of device to another ----


def train_on(folder, devices, *args):
    """An epoch on each of them, one after the other."""
    weights = os.path.join(golden, 'mlp_digits', 'init_weights.h5')
    for epoch, d in enumerate(devices):
        name = '%s/end.safetensors' % folder.path
        if epoch == 0:
            r = fit('-q', '--weights', weights, '--optimizer', 'adam', '--checkpoint', 'ckpt/{epoch}.h5', '-o', name,
                    '--devices', d, *args, cwd=folder.path)
        else:
            r = tool('pgfit', '--resume=ckpt/resume.pg', '--epochs', epoch + 1, '--devices', d, cwd=folder.path)
        expect(r, 0)
        expect(tool('pgcheck', '--model', os.path.join(golden, 'mlp_digits', 'model.json'), name), 0)
    return name


with Folder() as one, Folder() as other:
    for args in (), ('--deterministic',):
        wanted = train_on(one, ['cpu:0'] * 3, *args)
        for devices in (['cpu:0', 'cuda:0', 'cpu:0'], ['cuda:0', 'cpu:0', 'cuda:0,cuda:1'], ['cuda:1,cuda:0', 'cuda:0', 'cpu:0,cpu:1']):
            shutil.rmtree(other / 'ckpt', ignore_errors=True)
            if os.path.exists(other / 'end.safetensors'):
                os.remove(other / 'end.safetensors')
            found = train_on(other, devices, *args)
            if not apart(wanted, found) < 1e-4:
                bad += 1
                print('%s: %g from the CPU' % (devices, apart(wanted, found)))
            for d in 'cpu:0', 'cuda:0':  # what was written on one is read on the other
                expect(tool('pgfit', os.path.join(golden, 'mlp_digits', 'model.json'), '--weights', found, '--devices', d, '--predict',
                            os.path.join(golden, 'mlp_digits', 'data.npz'), '--out', d[:-2] + '.npy', '--force', cwd=other.path), 0)
            expect(tool('pgcheck', '--device', 'cuda:0', '--model', os.path.join(golden, 'mlp_digits', 'model.json'), '--input',
                        os.path.join(golden, 'mlp_digits', 'data.npz'), '--expect', 'cpu.npy', found, cwd=other.path), 0)
        for f in one, other:
            shutil.rmtree(f / 'ckpt')
            os.remove(f / 'end.safetensors')

# ---- over the runtime ----

if options.runtime:
    def seen(visible, *args, **env):
        return fit(*args, PG_CUDA_PLUGIN=plugin('pg-cuda-runtime.so'), FAKE_CUDA_DEVICES='3', CUDA_VISIBLE_DEVICES=visible, **env)
    for words in '', '-1', 'nonsense', 'GPU-f', '7':
        expect(seen(words, '--gpus', '1'), 3, 'pgfit: cuda:0: CUDA_VISIBLE_DEVICES=%s leaves no GPU' % (words or '""'), 'nvidia-smi -L')
        expect(seen(words, '--devices', 'auto'), 0, out='note: training on the CPU: CUDA_VISIBLE_DEVICES=%s leaves no GPU' % (words or '""'))
        expect(seen(words), 0, out='cpu:0')
    expect(seen('1,0'), 0, out='cpu:0')  # alone it asks for none
    expect(seen('1,0', '--gpus', 'all'), 0, out=r'\(cuda:0, cuda:1: GPU of plain C 1, sm_90\)')
    expect(seen('GPU-2', '--gpus', 'all'), 0, out=r'\(cuda:0: GPU of plain C 2, sm_90\)')
    expect(seen('1,-1,0', '--gpus', 'all'), 0, out=r'1 device \(cuda:0: GPU of plain C 1, sm_90\)')
    expect(seen('1,0', '--gpus', '3'), 2, 'pgfit: cuda:2 does not exist: CUDA_VISIBLE_DEVICES=1,0 leaves 2')
    expect(seen('1', '--gpus', '1', '-v', **counts), 0, out=r'\ncuda:0: 1\.0 GB of 16\.0 GB in use\n')
    for code, words in ((2, 'its kernels: '), (209, 'this build has no code for it; build with -Dgpu_arch=90')):
        r = seen('0', '--gpus', '1', FAKE_CUDA_KERNELS=str(code))
        expect(r, 2 if code == 2 else 3)
        if words not in r.err:
            bad += 1
            print(r.show())

    with Folder() as folder:  # TF32 comes to the library, and only where it is asked for
        def products(name, *args):
            expect(fit('-q', '--weights', os.path.join(golden, 'mlp_digits', 'init_weights.h5'), '-o', name, '--devices', 'cuda:0', *args,
                       cwd=folder.path, PG_CUDA_PLUGIN=plugin('pg-cuda-runtime.so')), 0)
            return folder / name
        exact, plain = products('a.safetensors'), products('b.safetensors', '--precision', 'float32')
        fast = products('c.safetensors', '--precision', 'tf32')
        if apart(exact, plain) != 0 or not 1e-7 < apart(exact, fast) < 1e-2:
            bad += 1
            print('tf32: %g and %g from float32' % (apart(exact, plain), apart(exact, fast)))

    def with_nccl(**env):
        return fit('-q', '--gpus', '2', PG_CUDA_PLUGIN=plugin('pg-cuda-nccl.so'), **env)
    with Folder() as folder:
        shutil.copy(plugin('not_ours.so'), folder / 'libnccl.so.2')
        expect(with_nccl(LD_LIBRARY_PATH=folder.path), 3,
               'pgfit: libnccl.so.2 is too old: it has no ncclGetUniqueId; install NCCL 2.19 or newer', '--cpu-merge')
        expect(fit('-q', '--gpus', '2', '--cpu-merge', PG_CUDA_PLUGIN=plugin('pg-cuda-nccl.so'), LD_LIBRARY_PATH=folder.path), 0)
    try:
        ctypes.CDLL('libnccl.so.2')
    except OSError:
        expect(with_nccl(), 3, hint='--cpu-merge')
sys.exit(bool(bad))
