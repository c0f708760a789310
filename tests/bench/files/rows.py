"""The rows of the table: what is measured, and against what."""

PLAIN, PROOF, DURABLE = '--skip-verify --no-sync', '--no-sync', ''
H5 = {'h5copy, keeps the wrapper': 'h5copy of the group (keeps the wrapper)', 'h5repack': 'h5repack',
      'h5py': 'h5py by tensor', 'Keras 2.15': 'Keras 2.15 load + save'}
LARGE, CLONING = ('vgg', 'bert'), ('xfs', 'btrfs')


class Row:
    """`what` of `suite` for each of `models`, as a ratio to the suite's base or another of its cases."""

    def __init__(self, what, suite, models, case, base=None, peers=None, systems=('',)):
        self.what, self.suite, self.models, self.case = what, suite, models, case.strip()
        self.base, self.peers, self.systems = base, peers or {}, systems


def both_ways(tool):
    """The same rows for pgunwrap and pgwrap."""
    suite, peers = tool[2:], H5 if tool == 'pgunwrap' else {}
    durable = f'{tool} {DURABLE}'
    few = {k: v for k, v in peers.items() if k != 'Keras 2.15'}  # takes an hour for 20,000 tensors
    rows = [
        Row(f'{tool}, write', suite, LARGE, f'{tool} {PLAIN}', peers=peers),
        Row(f'{tool}, write', suite, ('resnet',), f'{tool} {PLAIN}', peers=peers),
        Row(f'{tool}, write', suite, ('tiny',), f'{tool} {PLAIN}', peers=few),
        Row(f'{tool}, proof', suite, LARGE, f'{tool} {PROOF}'),
        Row(f'{tool}, proof', suite, ('tiny',), f'{tool} {PROOF}'),
        Row(f'{tool}, durable and proof', suite, ('vgg',), durable, base='cp + sync'),
        Row(f'{tool}, write', suite, LARGE, f'{tool} {PLAIN}', systems=CLONING),
        Row(f'{tool}, proof', suite, LARGE, f'{tool} {PROOF}', systems=CLONING),
    ]
    if tool == 'pgunwrap':
        rows[4:4] = [Row('pgunwrap --no-optimizer, write', 'unwrap', ('full',), f'{tool} {PLAIN}', peers={'h5py': H5['h5py']}),
                     Row('pgunwrap, write', 'unwrap', ('gz',), f'{tool} {PLAIN}', peers={'h5repack': 'h5repack', 'h5py': H5['h5py']})]
        rows += [Row('pgunwrap --in-place, durable', 'inplace', LARGE, 'pgunwrap --in-place'),
                 Row('pgunwrap --in-place, durable', 'inplace', ('tiny',), 'pgunwrap --in-place')]
    return rows


ROWS = [
    Row('pginfo', 'info', ('resnet',), 'pginfo', peers={'h5dump': 'h5dump -H', 'h5py': 'h5py'}),
    Row('pginfo', 'info', LARGE, 'pginfo', peers={'h5ls': 'h5ls -r', 'h5py': 'h5py'}),
    Row('pginfo', 'info', ('tiny',), 'pginfo', peers={'h5dump': 'h5dump -H', 'h5py': 'h5py'}),
    Row('pginfo --stats', 'stats', LARGE, 'pginfo --stats', peers={'numpy': 'numpy', 'sha256sum': 'sha256sum'}),
    *both_ways('pgunwrap'),
    *both_ways('pgwrap'),
    Row('pgsplit, CRC-32', 'split', LARGE, f'pgsplit {PROOF}',
        peers={'np.save': 'np.save loop', 'huggingface_hub': 'huggingface_hub + save_file'}),
    Row('pgsplit --sha256', 'split', LARGE, f'pgsplit {PROOF} --sha256'),
    Row('pgsplit, CRC-32', 'split', LARGE, f'pgsplit {PROOF}', systems=CLONING),
    Row('pgsplit, CRC-32', 'split', ('tiny',), f'pgsplit {PROOF}', base='np.save loop'),
    Row('pgjoin, CRC-32', 'join', LARGE, f'pgjoin {PROOF}', peers={'np.load': 'np.load loop'}),
    Row('pgjoin, CRC-32', 'join', ('tiny',), f'pgjoin {PROOF}', peers={'np.load': 'np.load loop'}),
    Row('pgdiff, equal', 'diff', LARGE, 'pgdiff', peers={'h5diff': 'h5diff', 'numpy': 'numpy'}),
    Row('pgdiff, equal', 'diff', ('tiny',), 'pgdiff', base='h5diff'),
    Row('pgdiff, all differ', 'changed', LARGE, 'pgdiff', peers={'h5diff': 'h5diff', 'numpy': 'numpy'}),
    Row('pgcheck, values and CRC-32', 'stats', LARGE, 'pgcheck of shards with CRC-32'),
    Row('pgconvert to safetensors, write', 'convert', LARGE, f'pgconvert {PLAIN}', peers={'safetensors.numpy': 'safetensors.numpy'}),
    Row('pgconvert to safetensors, write', 'convert', ('tiny',), f'pgconvert {PLAIN}', peers={'safetensors.numpy': 'safetensors.numpy'}),
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
