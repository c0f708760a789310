"""What run.py runs: the first case of a suite is its base. A case has an id, a command and, as wanted, pre (before each
run, not timed), check (after its first run, not timed), slow (few rounds), status (allowed exit statuses), needs (an
option that --help must know), module (what Python must import). Names in braces: src, dst; W, the folder of outputs (what begins with "keep" stays); pg, our tools; py, k2, k3, Pythons; peers;
verify, with its Python; layers, beside src."""


def case(id, command, **more):
    return dict(id=id, command=command, **more)


CP = case('cp', 'cp --reflink=never {src} {dst}')
SYNC = case('cp + sync', 'sh -c "cp --reflink=never {src} {dst} && sync {dst}"')
CHECK = '{verify} {src} {dst}'
SUITES = {}


def tool(name, arguments, options=('',), **more):
    return [case(f'{name} {o}'.strip(), f'{{pg}}/{name} {o} {arguments}', **more) for o in options]


def peer(id, job, **more):
    return case(id, '{py} {peers} ' + job, slow=True, **more)


def add_unwrap(suite, src, nested='/model_1', option='', peers=True):
    cases = [CP, SYNC, case('h5copy of the group (keeps the wrapper)', 'h5copy -i {src} -o {dst} -s %s -d /x -p' % nested),
             case('h5repack', 'h5repack {src} {dst}'), peer('h5py by tensor', 'unwrap {src} {dst}', check=CHECK),
             peer('h5py by layer', 'copy_unwrap {src} {dst}', check=CHECK)]
    if peers:
        cases.append(case('Keras 2.15 load + save', '{k2} {peers} keras_unwrap {layers} {src} {dst}.h5', slow=True))
    SUITES[suite] = dict(src=src, cases=cases + tool('pgunwrap', f'{option} {{src}} {{dst}}', check=CHECK,
                                                     options=('--skip-verify --no-sync', '--no-sync', '')))


for m in ('resnet', 'vgg', 'bert', 'tiny', 'huge'):
    src, one, folder, npy = f'{m}.h5', '{W}/keep_one.h5', '{W}/keep_split', '{W}/keep_npy'
    same, other = '{W}/keep_same.h5', '{W}/keep_other.h5'
    add_unwrap(f'unwrap-{m}', src, peers=m != 'tiny')
    cp_one = [dict(c, command=c['command'].replace('{src}', one)) for c in (CP, SYNC)]
    SUITES[f'wrap-{m}'] = dict(src=src, setup=['{py} {peers} unwrap {src} ' + one], inputs=[one], cases=cp_one + tool(
        'pgwrap', f'--like {{src}} {one} {{dst}}', check=f'{{verify}} {{dst}} {one}',
        options=('--skip-verify --no-sync', '--no-sync', '')))
    SUITES[f'inplace-{m}'] = dict(src=src, cases=[CP, SYNC] + tool(
        'pgunwrap', '{dst}', options=('--in-place',), needs='--in-place', check=CHECK,
        pre='cp --reflink=never {src} {dst} && sync {dst}'))
    listing = [case('h5ls -r', 'h5ls -r {src}'), case('cat', 'cat {src}')]
    SUITES[f'info-{m}'] = dict(src=src, cases=listing[::-1 if m in ('vgg', 'bert', 'huge') else 1] + [
        case('h5dump -H', 'h5dump -H {src}'), peer('h5py', 'info {src}')] + tool('pginfo', '{src}'))
    SUITES[f'split-{m}'] = dict(src=src, cases=[
        CP, SYNC, peer('np.save loop', 'npy_split {src} {dst}'),
        peer('huggingface_hub + save_file', 'hub_split {src} {dst} 200MB', module='huggingface_hub'),
        case('Keras 3 in shards', '{k3} {peers} keras_save {layers} {src} {dst}.weights.json 0.5', slow=True)] + tool(
        'pgsplit', '--unwrap {src} {dst}', check=CHECK, options=('--no-sync', '', '--no-sync --sha256', '--no-sync -j 2')) + tool(
        'pgsplit', '--unwrap {src} {dst}', options=('--no-sync --format safetensors',)))
    SUITES[f'join-{m}'] = dict(
        src=src, setup=[f'{{py}} {{peers}} npy_split {{src}} {npy}', f'{{pg}}/pgsplit -q --no-sync --unwrap {{src}} {folder}'],
        inputs=[npy, folder], cases=[CP, SYNC, peer('np.load loop', f'npy_join {npy} {{dst}}')] + tool(
            'pgjoin', f'{folder} {{dst}}', check=CHECK, options=('--no-sync', '')))
    SUITES[f'convert-{m}'] = dict(src=src, cases=[
        CP, SYNC, peer('safetensors.numpy', 'to_safetensors {src} {dst}.safetensors'),
        case('Keras 3 load + save', '{k3} {peers} keras_save {layers} {src} {dst}.weights.h5', slow=True)] + tool(
        'pgconvert', '--unwrap {src} {dst}.safetensors', check='{verify} {src} {dst}.safetensors',
        options=('--skip-verify --no-sync', '--no-sync', '')))
    SUITES[f'stats-{m}'] = dict(src=src, setup=[f'{{pg}}/pgsplit -q --no-sync --unwrap {{src}} {folder}'], inputs=[folder],
                                cases=[case('cat', 'cat {src}'), case('cksum', 'cksum {src}'),
                                       case('sha256sum', 'sha256sum {src}'), peer('numpy', 'stats {src}')] + tool(
        'pginfo', '{src}', options=('--stats',)) + tool('pgcheck', '{src}', options=('--finite',), status=(0, 1)) + [
        case('pgcheck of shards with CRC-32', f'{{pg}}/pgcheck {folder}')])
    for suite, setup in (('diff', f'cp {same} {other}'), ('changed', f'{{py}} {{peers}} change {same} {other}')):
        SUITES[f'{suite}-{m}'] = dict(src=src, setup=[f'cp {{src}} {same}', setup], inputs=[same, other], cases=[
            case('cmp of equal files', f'cmp {{src}} {same}'),
            case('h5diff', f'h5diff {{src}} {other}', slow=True, status=(0, 1)),
            peer('numpy', f'diff {{src}} {other}')] + tool('pgdiff', f'{{src}} {other}', status=(0, 1)))
add_unwrap('unwrap-full', 'vgg_full.h5', '/model_weights/model_1', '--no-optimizer', peers=False)
add_unwrap('unwrap-gz', 'vgg_gz.h5', peers=False)
