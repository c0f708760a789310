"""frameworks.py make KIND FOLDER GB | join KIND IN OUT.safetensors

make: a checkpoint of KIND as the framework itself writes it, from four processes or devices where it has them.
join: what its users do today to get one file. Runs under the framework's own Python."""
import os
import pathlib
import sys

N_RANKS = 4
ROWS = 1024  # of a weight; its columns follow from the size


def shapes(gb):
    """48 weights and as many biases, 41 MB each for 2 GB."""
    columns = max(16, int(gb * 1e9 / 4 / 48 / ROWS) // 16 * 16)
    return {f'layers.{i}.{what}': (ROWS, columns) if what == 'weight' else (columns,) for i in range(48) for what in ('weight', 'bias')}


def values(name, shape):
    import numpy as np
    return np.random.default_rng(len(name) + sum(shape)).standard_normal(shape, dtype=np.float32)


# ---- torch.distributed.checkpoint ----

def dcp_rank(rank, folder, gb, cut_twice, port):
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
    dist.init_process_group('gloo', rank=rank, world_size=N_RANKS)
    mesh = init_device_mesh('cpu', (2, 2) if cut_twice else (N_RANKS,))
    state = {}
    for name, shape in shapes(gb).items():
        places = [Shard(0), Shard(len(shape) - 1)] if cut_twice else [Shard(0)]
        state[name] = distribute_tensor(torch.from_numpy(values(name, shape)), mesh, places)
    dcp.save({'model': state}, checkpoint_id=folder)
    dist.destroy_process_group()


def make_dcp(folder, gb, cut_twice=False):
    import torch.multiprocessing as mp
    mp.spawn(dcp_rank, (str(folder), gb, cut_twice, 20000 + os.getpid() % 20000), nprocs=N_RANKS)


def join_dcp(source, out):
    import torch
    from safetensors.torch import save_file
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    dcp_to_torch_save(source, out + '.pt')
    save_file(torch.load(out + '.pt')['model'], out)


# ---- DeepSpeed ----

def zero_rank(rank, folder, gb, port):
    os.environ.update(DS_ACCELERATOR='cpu', DS_BUILD_OPS='0', MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), RANK=str(rank),
                      LOCAL_RANK=str(rank), WORLD_SIZE=str(N_RANKS), OMP_NUM_THREADS='1')
    import deepspeed
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for i, (name, shape) in enumerate(shapes(gb).items()):
                self.register_parameter(name.replace('.', '_'), torch.nn.Parameter(torch.from_numpy(values(name, shape))))

        def forward(self):
            return sum(p.sum() for p in self.parameters())
    deepspeed.init_distributed('gloo')
    zero = {'stage': 3, 'stage3_param_persistence_threshold': 0}
    engine = deepspeed.initialize(model=Net(), config={
        'train_micro_batch_size_per_gpu': 1, 'zero_optimization': zero, 'zero_allow_untested_optimizer': True,
        'optimizer': {'type': 'SGD', 'params': {'lr': 1e-4}}})[0]
    engine.backward(engine())
    engine.step()
    engine.save_checkpoint(folder)


def make_zero(folder, gb):
    import torch.multiprocessing as mp
    mp.spawn(zero_rank, (str(folder), gb, 20000 + os.getpid() % 20000), nprocs=N_RANKS)


def join_zero(source, out):
    os.environ.update(DS_ACCELERATOR='cpu', DS_BUILD_OPS='0')
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
    from safetensors.torch import save_file
    save_file({k: v.contiguous() for k, v in get_fp32_state_dict_from_zero_checkpoint(source).items()}, out)


# ---- TensorFlow ----

def make_tf(folder, gb):
    import tensorflow as tf
    folder.mkdir()
    variables = {name.replace('.', '/'): tf.Variable(values(name, shape)) for name, shape in shapes(gb).items()}
    tf.train.Checkpoint(**{'v%d' % i: v for i, v in enumerate(variables.values())}).write(str(folder / 'ckpt'))


def join_tf(source, out):
    import h5py
    import tensorflow as tf
    reader = tf.train.load_checkpoint(source + '/ckpt')
    with h5py.File(out, 'w') as f:
        for name in reader.get_variable_to_shape_map():
            if name.endswith('VARIABLE_VALUE'):
                f[name] = reader.get_tensor(name)


# ---- Flax and Orbax ----

def make_flax(folder, gb):
    from flax import serialization
    folder.mkdir()
    tree = {'params': {name.replace('.', '_'): values(name, shape) for name, shape in shapes(gb).items()}}
    (folder / 'flax_model.msgpack').write_bytes(serialization.msgpack_serialize(tree))


def join_flax(source, out):
    from flax import serialization
    from safetensors.numpy import save_file
    params = serialization.msgpack_restore(pathlib.Path(source, 'flax_model.msgpack').read_bytes())['params']
    save_file({f'params/{name}': array for name, array in params.items()}, out)


def make_orbax(folder, gb):
    os.environ['XLA_FLAGS'] = f'--xla_force_host_platform_device_count={N_RANKS}'
    import jax
    import orbax.checkpoint as ocp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    import numpy as np
    mesh = Mesh(np.array(jax.devices()), ('data',))
    tree = {name: jax.device_put(values(name, shape), NamedSharding(mesh, PartitionSpec('data'))) for name, shape in shapes(gb).items()}
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder.resolve(), tree)


def join_orbax(source, out):
    import jax
    import numpy as np
    import orbax.checkpoint as ocp
    from safetensors.numpy import save_file
    source, checkpointer = str(pathlib.Path(source).resolve()), ocp.PyTreeCheckpointer()
    tree = checkpointer.metadata(source).item_metadata.tree
    how = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), tree)  # its devices are not here
    save_file(checkpointer.restore(source, restore_args=how), out)


MAKE = {'dcp': make_dcp, 'zero': make_zero, 'dcp-2d': lambda folder, gb: make_dcp(folder, gb, cut_twice=True), 'tf': make_tf, 'flax': make_flax,
        'orbax': make_orbax}
JOIN = {'dcp': join_dcp, 'zero': join_zero, 'dcp-2d': join_dcp, 'tf': join_tf, 'flax': join_flax, 'orbax': join_orbax}

if __name__ == '__main__':
    what, kind, source, last = sys.argv[1:]
    if what == 'make':
        MAKE[kind](pathlib.Path(source), float(last))
    else:
        JOIN[kind](source, last)
