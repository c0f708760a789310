"""usage: powersgd_peer.py GOLDEN EPOCHS LEARNING_RATE

What powersgd.py asks PyTorch: the model of GOLDEN trained by two processes over gloo, once without and then with PyTorch's own
PowerSGD. Prints a line each, "losses" and JSON: rank of the factors (0: none), seed, losses of the epochs."""
import json
import os
import sys
import tempfile

import h5py
import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as psgd

BATCH = 50  # of both processes


def model(golden):
    net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16), torch.nn.Tanh(), torch.nn.Linear(16, 10))
    with h5py.File(os.path.join(golden, 'init_weights.h5')) as f, torch.no_grad():
        found = [f[layer][w][()] for layer in f.attrs['layer_names'] for w in f[layer].attrs['weight_names']]
        for p, w in zip(net.parameters(), found, strict=True):
            p.copy_(torch.tensor(w.T))
    return net


def train(rank, golden, epochs, learning_rate, factors, seed):
    d = np.load(os.path.join(golden, 'data.npz'))
    x, y = torch.tensor(d['x0']), torch.tensor(d['y0'])
    ddp = torch.nn.parallel.DistributedDataParallel(model(golden))
    if factors:
        state = psgd.PowerSGDState(None, matrix_approximation_rank=factors, start_powerSGD_iter=2, random_seed=seed)
        ddp.register_comm_hook(state, psgd.powerSGD_hook)
    sgd = torch.optim.SGD(ddp.parameters(), lr=learning_rate)
    losses = []
    for _ in range(epochs):
        total = torch.zeros(())
        for b in range(rank * BATCH // 2, len(x), BATCH):
            sgd.zero_grad()
            loss = torch.nn.functional.cross_entropy(ddp(x[b:b + BATCH // 2]), y[b:b + BATCH // 2])
            loss.backward()
            sgd.step()
            total += loss.detach() * BATCH / 2 / len(x)
        dist.all_reduce(total)
        losses.append(total.item())
    return losses


def process(rank, meet, golden, epochs, learning_rate):
    torch.set_num_threads(1)
    dist.init_process_group('gloo', init_method='file://' + meet, rank=rank, world_size=2)
    for factors, seed in [(0, 0), *((f, s) for f in (1, 2, 4) for s in range(3))]:
        losses = train(rank, golden, epochs, learning_rate, factors, seed)
        if rank == 0:
            print('losses', json.dumps([factors, seed, losses]), flush=True)
    dist.barrier()
    os._exit(0)  # gloo's threads do not always survive its end


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(process, (os.path.join(folder, 'meet'), sys.argv[1], int(sys.argv[2]), float(sys.argv[3])), nprocs=2)
