"""notebook.py, torch: state_dicts of wrappers, loaded strictly into the bare model."""
import os
import sys

import pgfit
import pgfit.torch
import torch
from notebook_page import page_blocks


def build():
    return torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(16, 3))


class Evil:
    def __reduce__(self):
        return os.mkdir, ('executed',)


model = build()
wrapped = torch.nn.DataParallel(model)
torch.save({'state_dict': wrapped.state_dict(), 'epoch': 3, 'args': Evil()}, 'checkpoint.pt')
info = pgfit.inspect('checkpoint.pt')
assert info.verdict == 'wrapper' and info.wrapper.template == 'module.', info
state = pgfit.torch.load('checkpoint.pt')
assert not os.path.exists('executed')
other = build()
other.load_state_dict(state, strict=True)
x = torch.randn(5, 1, 4, 4)
model.eval(), other.eval()
assert torch.equal(model(x), other(x))

# Memory is the file's until it is changed, and the file never is.
before = open('checkpoint.pt', 'rb').read()
state['0.weight'].mul_(2)
assert torch.equal(state['0.weight'], 2 * model.state_dict()['0.weight'])
assert open('checkpoint.pt', 'rb').read() == before
assert torch.equal(pgfit.torch.load('checkpoint.pt', mode='m')['0.weight'], model.state_dict()['0.weight'])
assert list(pgfit.torch.load('checkpoint.pt', unwrap=False))[0] == 'module.0.weight'

# The same by way of a file, and every type of tensor.
report = pgfit.unwrap('checkpoint.pt', 'clean.safetensors')
assert report.action == 'prefix removed' and any('epoch 3' in n for n in report.notes)
assert all(torch.equal(a, b) for a, b in zip(pgfit.torch.load('clean.safetensors').values(), model.state_dict().values()))
assert pgfit.diff('checkpoint.pt', 'clean.safetensors').equal
types = {str(t): torch.arange(6).reshape(2, 3).to(t) for t in (
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
    torch.bool)}
types.update(transposed=torch.arange(6.).reshape(2, 3).T, empty=torch.zeros(0, 3), scalar=torch.tensor(7.))
torch.save(types, 'types.pt')
got = pgfit.torch.load('types.pt')
for name, want in types.items():
    assert got[name].dtype == want.dtype and torch.equal(got[name], want), name

# Several models in one file.
torch.save({'model': model.state_dict(), 'model_ema': build().state_dict()}, 'two.pt')
try:
    pgfit.torch.load('two.pt')
except pgfit.AmbiguousError as e:
    assert 'part=' in e.hint, e.hint
else:
    raise AssertionError('guessed')
assert torch.equal(pgfit.torch.load('two.pt', part='model')['0.weight'], model.state_dict()['0.weight'])

# What ranks saved of a DistributedDataParallel, whose prefix goes.
folder = os.path.join(sys.argv[2], 'modern/dcp-ddp')
want = pgfit.torch.load(os.path.join(folder, 'expected.safetensors'))
got = pgfit.torch.load(os.path.join(folder, 'ckpt'))
assert sorted(got) == sorted(want) and all(torch.equal(got[name], want[name]) for name in want), sorted(got)

# The manual page's own example.
for block in page_blocks('python'):
    if 'torch' in block:
        exec(block)
