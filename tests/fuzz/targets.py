"""The fuzz targets: what is shared by run.py, which fuzzes, and ledger.py, which counts.

Seeds are tests/fuzz/corpus/TARGET and those files of testdata that match a pattern and are no longer
than max_len. `sources` is the parser: executions count from its last change on."""
import collections

Target = collections.namedtuple('Target', 'dicts max_len seeds goal sources')

M = 10**6
H5 = [f'libpg/format/h5/h5_{part}' for part in (
    'attr.c', 'btree.c', 'chunk.c', 'file.c', 'gheap.c', 'group.c', 'header.c', 'impl.h', 'object.c', 'read.c',
    'reader.c', 'super.c', 'type.c')] + ['libpg/base/inflate.c']
JSON = ['libpg/base/json.c', 'libpg/base/json_scan.c']
NPY = ['libpg/format/npy.c', 'libpg/format/fmt_numpy.c']
PICKLE = ['libpg/base/pickle.c', 'libpg/base/pickle_ops.c'] + [f'libpg/format/pytorch_{part}.c' for part in (
    'cut', 'numpy', 'parts', 'tree', 'values', 'walk')]
ZIP = ['libpg/io/zip.c', 'libpg/io/zip_dir.c', 'libpg/io/zip_end.c']

TARGETS = {
    'config': Target(['json'], 2048, [], 10 * M, ['libpg/io/config.c'] + JSON),
    'data': Target(['csv'], 1024, ['*.npy'], 10 * M,
                   [f'libpg/train/data/data_{kind}.c' for kind in ('csv', 'hdf5', 'idx', 'npy', 'npz')]),
    'dcp': Target(['pickle'], 8192, ['.metadata'], 10 * M, ['libpg/format/dcp_layers.c', 'libpg/format/dcp_metadata.c', 'libpg/format/dcp_part.c', 'libpg/store/tiles.c'] + PICKLE[:2]),
    'flax': Target([], 8192, ['*.msgpack', 'checkpoint_2'], 10 * M, ['libpg/format/flax.c', 'libpg/format/flax_is.c', 'libpg/format/flax_parts.c', 'libpg/format/fmt_flax.c', 'libpg/store/tiles.c']),
    # libhdf5 reads all that passes, and is slow
    'h5_open': Target(['h5'], 9216, ['*.h5'], 1 * M, H5),
    'h5_reader': Target(['h5'], 9216, ['*.h5'], 30 * M, H5),
    # each time libhdf5 makes the file, too, and changes ours
    'h5_writer': Target([], 1024, [], 1 * M,
                        [f'libpg/format/h5/h5_{part}.c' for part in ('encode', 'tree', 'tree_write', 'writer')]),
    'index': Target(['json'], 4096, ['*.weights.json', '*.index.json'], 10 * M,
                    ['libpg/format/fmt_keras_sharded.c', 'libpg/format/fmt_st_index.c'] + JSON),
    'json_graph': Target(['json'], 6144, ['*.json'], 10 * M,
                         [f'libpg/model/graph/graph{part}.c' for part in ('', '_build', '_connect')] + ['libpg/model/load/graph_load.c'] + JSON),
    'keras_zip': Target(['zip', 'h5'], 24576, ['*.keras'], 10 * M,
                        ['libpg/format/fmt_keras_v3.c', 'libpg/format/fmt_keras_zip.c'] + ZIP),
    'manifest': Target(['json'], 4096, [], 10 * M,
                       ['libpg/format/manifest.c', 'libpg/format/manifest_read.c'] + JSON),
    # writes the files of a checkpoint each time
    'megatron': Target(['pickle'], 24576, [], 1 * M,
                       [f'libpg/format/megatron_{part}.c' for part in ('args', 'cut', 'merge', 'ranks', 'rules')] + ['libpg/format/fmt_megatron.c', 'libpg/store/tiles.c'] + PICKLE),
    'npy': Target(['npy'], 1024, ['*.npy'], 10 * M, NPY),
    'npz': Target(['zip', 'npy'], 4096, ['*.npz'], 10 * M, NPY + ZIP),
    'onnx': Target([], 4096, ['*.onnx'], 10 * M,
                   ['libpg/base/proto.c', 'libpg/format/fmt_onnx.c', 'libpg/format/onnx_message.c']),
    'orbax': Target(['json'], 4096, [], 10 * M,
                    [f'libpg/format/orbax/{part}.c' for part in ('chunk', 'kv', 'ocdbt', 'zarr')] + ['libpg/store/tiles.c'] + JSON),
    'pickle': Target(['pickle'], 4096, [], 10 * M, PICKLE + ['libpg/format/megatron_args.c']),
    'pytorch': Target(['zip', 'pickle'], 4096, ['*.pt'], 10 * M,
                      ['libpg/format/fmt_pytorch.c', 'libpg/format/pytorch_store.c', 'libpg/format/pytorch_stream.c'] + PICKLE + ZIP),
    'resume': Target(['resume'], 1024, [], 10 * M, ['libpg/train/model/resume_file.c']),
    # no parser but the writers
    'roundtrip': Target([], 300, [], 1 * M,
                        [f'libpg/format/{writer}.c' for writer in
                         ('h5/h5_encode', 'h5/h5_tree', 'h5/h5_tree_write', 'h5/h5_writer', 'keras_h5_write', 'keras_v3_write',
                          'safetensors_write')] +
                        ['libpg/io/zip_out.c']),
    # writes the files of a checkpoint each time
    'st_cut': Target(['safetensors'], 4096, [], 1 * M,
                     ['libpg/format/fmt_safetensors.c', 'libpg/format/fmt_st_cut.c', 'libpg/format/pieces.c', 'libpg/store/tiles.c'] + JSON),
    'tf': Target([], 16384, ['*.index'], 10 * M,
                 [f'libpg/format/tf/tf_{part}.c' for part in ('bundle', 'graph', 'model', 'names', 'table')] + ['libpg/base/proto.c', 'libpg/store/tiles.c']),
    # writes the files of a checkpoint each time
    'zero': Target(['pickle'], 24576, [], 1 * M,
                   [f'libpg/format/zero_{part}.c' for part in ('cut', 'experts', 'files', 'job', 'match', 'model', 'ranks', 'rest', 'rules', 'slices')] +
                   ['libpg/store/tiles.c'] + PICKLE),
    'safetensors': Target(['safetensors'], 4096, ['*.safetensors'], 10 * M, ['libpg/format/fmt_safetensors.c'] + JSON),
}
IN_ALL = 100 * M
