"""The rows of the table: what is measured, against what, and what was set as its goal. A ratio meets the goal if the
minima of wall time do, or those of processor time."""

PLAIN, PROOF, DURABLE = '--skip-verify --no-sync', '--no-sync', ''
H5 = {'h5copy, keeps the wrapper': 'h5copy of the group (keeps the wrapper)', 'h5repack': 'h5repack',
      'h5py': 'h5py by tensor', 'Keras 2.15': 'Keras 2.15 load + save'}
LARGE, CLONING = ('vgg', 'bert'), ('xfs', 'btrfs')


class Row:
    """`what` of `suite` for each of `models`, as a ratio to the suite's base or another of its cases."""

    def __init__(self, what, suite, models, case, goal, stretch, base=None, peers=None, systems=('',), rss=None):
        self.what, self.suite, self.models, self.case = what, suite, models, case.strip()
        self.goal, self.stretch, self.base, self.peers, self.systems = goal, stretch, base, peers or {}, systems
        self.rss = rss or (128 if models == ('tiny',) else 64)  # MB


def both_ways(tool):
    """pgunwrap and pgwrap have the same goals."""
    suite, peers = tool[2:], H5 if tool == 'pgunwrap' else {}
    durable = f'{tool} {DURABLE}'
    few = {k: v for k, v in peers.items() if k != 'Keras 2.15'}  # takes an hour for 20,000 tensors
    rows = [
        Row(f'{tool}, write', suite, LARGE, f'{tool} {PLAIN}', 1.15, 1.0, peers=peers),
        Row(f'{tool}, write', suite, ('resnet',), f'{tool} {PLAIN}', 2.5, 1.3, peers=peers),
        Row(f'{tool}, write', suite, ('tiny',), f'{tool} {PLAIN}', 15, 10, peers=few),
        Row(f'{tool}, proof', suite, LARGE, f'{tool} {PROOF}', 2.1, 1.7),
        Row(f'{tool}, proof', suite, ('tiny',), f'{tool} {PROOF}', 50, 25),
        Row(f'{tool}, durable and proof', suite, ('vgg',), durable, 1.6, 1.4, base='cp + sync'),
        Row(f'{tool}, write', suite, LARGE, f'{tool} {PLAIN}', 0.05, 0.03, systems=CLONING),
        Row(f'{tool}, proof', suite, LARGE, f'{tool} {PROOF}', 1.2, 0.8, systems=CLONING),
    ]
    if tool == 'pgunwrap':
        rows[4:4] = [Row('pgunwrap --no-optimizer, write', 'unwrap', ('full',), f'{tool} {PLAIN}', 0.4, 0.25, peers={'h5py': H5['h5py']}),
                     Row('pgunwrap, write', 'unwrap', ('gz',), f'{tool} {PLAIN}', 1.5, 1.0, peers={'h5repack': 'h5repack', 'h5py': H5['h5py']})]
        rows += [Row('pgunwrap --in-place, durable', 'inplace', LARGE, 'pgunwrap --in-place', 0.1, 0.05),
                 Row('pgunwrap --in-place, durable', 'inplace', ('tiny',), 'pgunwrap --in-place', 50, 15, rss=160)]
    return rows


ROWS = [
    Row('pginfo', 'info', ('resnet',), 'pginfo', 1.2, 0.6, peers={'h5dump': 'h5dump -H', 'h5py': 'h5py'}),
    Row('pginfo', 'info', LARGE, 'pginfo', 0.1, 0.05, peers={'h5ls': 'h5ls -r', 'h5py': 'h5py'}),
    Row('pginfo', 'info', ('tiny',), 'pginfo', 1.2, 0.4, peers={'h5dump': 'h5dump -H', 'h5py': 'h5py'}),
    Row('pginfo --stats', 'stats', LARGE, 'pginfo --stats', 3, 1.8, peers={'numpy': 'numpy', 'sha256sum': 'sha256sum'}),
    *both_ways('pgunwrap'),
    *both_ways('pgwrap'),
    Row('pgsplit, CRC-32', 'split', LARGE, f'pgsplit {PROOF}', 1.8, 1.25,
        peers={'np.save': 'np.save loop', 'huggingface_hub': 'huggingface_hub + save_file'}),
    Row('pgsplit --sha256', 'split', LARGE, f'pgsplit {PROOF} --sha256', 6, 4),
    Row('pgsplit, CRC-32', 'split', LARGE, f'pgsplit {PROOF}', 1.2, 0.6, systems=CLONING),
    Row('pgsplit, CRC-32', 'split', ('tiny',), f'pgsplit {PROOF}', 0.5, 0.2, base='np.save loop'),
    Row('pgjoin, CRC-32', 'join', LARGE, f'pgjoin {PROOF}', 2.0, 1.3, peers={'np.load': 'np.load loop'}),
    Row('pgjoin, CRC-32', 'join', ('tiny',), f'pgjoin {PROOF}', 40, 25, peers={'np.load': 'np.load loop'}),
    Row('pgdiff, equal', 'diff', LARGE, 'pgdiff', 1.1, 0.9, peers={'h5diff': 'h5diff', 'numpy': 'numpy'}),
    Row('pgdiff, equal', 'diff', ('tiny',), 'pgdiff', 0.5, 0.25, base='h5diff'),
    Row('pgdiff, all differ', 'changed', LARGE, 'pgdiff', 2, 1.4, peers={'h5diff': 'h5diff', 'numpy': 'numpy'}),
    Row('pgcheck, values and CRC-32', 'stats', LARGE, 'pgcheck of shards with CRC-32', 3, 1.8),
    Row('pgconvert to safetensors, write', 'convert', LARGE, f'pgconvert {PLAIN}', 1.3, 1.1, peers={'safetensors.numpy': 'safetensors.numpy'}),
    Row('pgconvert to safetensors, write', 'convert', ('tiny',), f'pgconvert {PLAIN}', 25, 10, peers={'safetensors.numpy': 'safetensors.numpy'}),
]


def wanted(rows, peers=True):
    """{(file system, suite): ids of its cases}, in the order of the rows."""
    found = {}
    for row in rows:
        for system in row.systems:
            for model in row.models:
                ids = found.setdefault((system, f'{row.suite}-{model}'), {})
                ids.update(dict.fromkeys([row.case, *([row.base] if row.base else []), *(row.peers.values() if peers else [])]))
    return found
