#!/usr/bin/env python3
"""Writes extra/checkpoints: what training programs save, each by its own code or in exactly its structure.

usage: checkpoints.py OUT      with torch 2.5, numpy 1.26, safetensors; on PYTHONPATH pytorch-lightning 2.6,
                               accelerate 1.1, transformers 4.46, omegaconf, mmengine 0.10 and what they need

Where a program cannot be had here, its saving code was looked up: pytorch/examples imagenet/main.py; the PyTorch tutorial
"Saving and loading a general checkpoint"; timm utils/checkpoint_saver.py; fvcore common/checkpoint.py and detectron2
tools/convert-torchvision-to-d2.py; mmcv runner/checkpoint.py; fairseq trainer.py; ultralytics/yolov5 train.py; rosinality
stylegan2-pytorch train.py; NVlabs/stylegan3 training_loop.py and torch_utils/persistence.py; torchvision
references/classification/train.py; MoCo main_moco.py and moco/builder.py; DINO main_dino.py; MAE util/misc.py; nanoGPT train.py;
openai/whisper. The model is the same tiny one everywhere: plain.safetensors, its average ema.safetensors.
"""
import argparse
import collections
import copy
import datetime
import os
import pathlib
import pickle
import random
import sys
import types
import warnings

import numpy as np
import torch
import torch.nn as nn
from safetensors.torch import save_file

warnings.simplefilter("ignore")
out = os.path.join(sys.argv[1], "checkpoints")
os.makedirs(out, exist_ok=True)
os.chdir(out)
torch.manual_seed(25)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.body(x))


class Disc(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 1)


def twin(name, module):
    save_file({k: v.detach().clone() for k, v in module.state_dict().items()}, name + ".safetensors")


def fake(name, base=object, **attributes):
    """A class as another program has it: pickles hold its name only."""
    module, _, cls = name.rpartition(".")
    for i in range(module.count(".") + 1):
        part = ".".join(module.split(".")[:i + 1])
        sys.modules.setdefault(part, types.ModuleType(part))
    c = type(cls, (base,), dict(attributes, __module__=module))
    setattr(sys.modules[module], cls, c)
    return c


net, disc = Net(), Disc()
ema = copy.deepcopy(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
sched = torch.optim.lr_scheduler.StepLR(opt, 30)
net(torch.randn(5, 3)).sum().backward()
opt.step()
sched.step()
twin("plain", net)
twin("ema", ema)
sd, osd, ssd = net.state_dict(), opt.state_dict(), sched.state_dict()
ddp = nn.DataParallel(net).state_dict()
args = argparse.Namespace(lr=0.1, data="/data", out=pathlib.PurePosixPath("/out"), when=datetime.datetime(2026, 11, 24), factory=torch.optim.SGD,
                          rate=np.float64(0.5), sizes=collections.defaultdict(list, {"a": [1, 2]}))
scaler = {"scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000, "_growth_tracker": 0}
torch.save({"epoch": 5, "arch": "resnet18", "state_dict": ddp, "best_acc1": torch.tensor(71.25), "optimizer": osd, "scheduler": ssd}, "imagenet.pth.tar")
torch.save({"epoch": 5, "model_state_dict": sd, "optimizer_state_dict": osd, "loss": torch.tensor(0.375, requires_grad=True)}, "tutorial.pt")
torch.save({"epoch": 5, "arch": "resnet18", "optimizer": osd, "version": 2, "args": args, "amp_scaler": scaler, "state_dict": sd,
            "state_dict_ema": ema.state_dict(), "metric": 71.25}, "timm.pth.tar")
torch.save({"model": sd, "optimizer": osd, "scheduler": ssd, "iteration": 89999}, "detectron2.pth")
with open("detectron2_zoo.pkl", "wb") as f:
    pickle.dump({"model": {k: v.detach().numpy() for k, v in sd.items()}, "__author__": "torchvision", "matching_heuristics": True}, f)
torch.save({"model": {k: v.detach().numpy() for k, v in sd.items()}, "iteration": 3}, "numpy_in_torch.pth")
with open("numpy_protocol5.pkl", "wb") as f:
    pickle.dump({"model": {k: np.array(v.detach().numpy(), order="F") for k, v in sd.items()}}, f, 5)
with open("numpy_old.pkl", "wb") as f:
    pickle.dump({"model": {k: np.array(v.detach().numpy(), order="F").astype(v.detach().numpy().dtype.newbyteorder(">")) for k, v in sd.items()}}, f, 2)
torch.save({"meta": {"env_info": "linux", "seed": 3, "epoch": 12, "iter": 100, "hook_msgs": {}}, "state_dict": sd, "optimizer": osd}, "mmcv.pth")
torch.save({"args": None, "cfg": {"common": {"seed": 1}, "model": {"arch": "x"}}, "model": sd, "criterion": None,
            "optimizer_history": [{"criterion_name": "C", "optimizer_name": "O", "lr_scheduler_state": {"best": None}, "num_updates": 9}], "task_state": {},
            "extra_state": {"metrics": collections.OrderedDict(), "previous_training_time": 1.5, "train_iterator": {"epoch": 2}, "val_loss": 1.25},
            "last_optimizer_state": osd}, "fairseq.pt")
detection = fake("models.yolo.DetectionModel", Net)
yolo = detection()
yolo.load_state_dict(sd)
torch.save({"epoch": 1, "best_fitness": np.float64(0.5), "model": copy.deepcopy(yolo).half(), "ema": None, "updates": 7, "optimizer": osd, "opt": vars(args),
            "git": None, "date": "2026-11-24"}, "yolov5.pt")
detection8 = fake("ultralytics.nn.tasks.DetectionModel", Net)
torch.save({"epoch": -1, "best_fitness": None, "model": None, "ema": detection8().half(), "updates": None, "optimizer": None, "train_args": {}, "version": "8.3.0"}, "yolov8.pt")
torch.save({"g": sd, "d": disc.state_dict(), "g_ema": ema.state_dict(), "g_optim": osd, "d_optim": osd, "args": args, "ada_aug_p": 0.25}, "stylegan2.pt")


def _reconstruct_persistent_obj(meta):
    pass


_reconstruct_persistent_obj.__module__ = "torch_utils.persistence"
fake("torch_utils.persistence.Nothing")
sys.modules["torch_utils.persistence"]._reconstruct_persistent_obj = _reconstruct_persistent_obj


class Persistent(Net):
    def __reduce__(self):
        return _reconstruct_persistent_obj, (dict(type="class", version=6, module_src="import torch", class_name="Generator", state=self.__dict__),)


with open("stylegan3.pkl", "wb") as f:
    pickle.dump({"G": Persistent(), "D": Persistent(), "G_ema": Persistent(), "training_set_kwargs": {}, "augment_pipe": None}, f)
avg = torch.optim.swa_utils.AveragedModel(net)
avg.module.load_state_dict(ema.state_dict())
torch.save({"model": sd, "optimizer": osd, "lr_scheduler": ssd, "epoch": 3, "args": args, "model_ema": avg.state_dict(), "scaler": scaler}, "torchvision_ema.pth")
torch.save({"model": sd, "optimizer": osd, "lr_scheduler": ssd, "epoch": 3, "args": args, "scaler": scaler}, "torchvision.pth")
moco = nn.Module()
moco.encoder_q, moco.encoder_k = copy.deepcopy(net), copy.deepcopy(ema)
moco.register_buffer("queue", torch.randn(2, 8))
moco.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))
twin("moco", moco)
torch.save({"epoch": 200, "arch": "resnet50", "state_dict": nn.DataParallel(moco).state_dict(), "optimizer": osd}, "moco.pth.tar")
loss = nn.Module()
loss.register_buffer("center", torch.zeros(1, 8))
torch.save({"student": ddp, "teacher": ema.state_dict(), "optimizer": osd, "epoch": 5, "args": args, "dino_loss": loss.state_dict(), "fp16_scaler": scaler}, "dino.pth")
torch.save({"model": sd, "optimizer": osd, "epoch": 5, "scaler": scaler, "args": args}, "mae.pth")
torch.save({"model": torch.compile(net).state_dict(), "optimizer": osd, "model_args": {"n_layer": 2}, "iter_num": 2000, "best_val_loss": torch.tensor(1.5),
            "config": {"out_dir": "out"}}, "nanogpt.pt")
torch.save({"dims": {"n_mels": 80, "n_vocab": 51865}, "model_state_dict": sd}, "whisper.pt")
torch.save({"net": sd, "rng_state": torch.get_rng_state(), "cuda_rng_state": [torch.zeros(16, dtype=torch.uint8)], "step": torch.tensor(7)}, "rng_beside.pt")
torch.save(sd, "pytorch_model.bin")
torch.save(osd, "optimizer.pt")
torch.save(ssd, "scheduler.pt")
random.seed(3)
torch.save({"python": random.getstate(), "numpy": np.random.RandomState(3).get_state(), "cpu": torch.random.get_rng_state(), "cuda": torch.zeros(16, dtype=torch.uint8)},
           "rng_state.pth")

layers = {k: {"w": torch.randn(3, 3), "b": torch.randn(3)} for k in ("layer1", "layer2")}
torch.save(layers, "nested.pt")
save_file({f"{k}.{n}": t for k, v in layers.items() for n, t in v.items()}, "nested.safetensors")

import transformers  # noqa: E402

torch.save(transformers.TrainingArguments("/tmp/x", use_cpu=True, report_to=[]), "training_args.bin")
from accelerate.checkpointing import save_accelerator_state  # noqa: E402

os.makedirs("accelerate", exist_ok=True)
save_accelerator_state("accelerate", [sd], [opt], [sched], [], 0, 5, safe_serialization=False)
for name in ("random_states_0.pkl", "pytorch_model.bin", "optimizer.bin", "scheduler.bin"):
    os.replace(os.path.join("accelerate", name), "accelerate_" + name)
os.rmdir("accelerate")
import lightning_fabric  # noqa: E402,F401
import pytorch_lightning as pl  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402


class Lit(pl.LightningModule):
    def __init__(self, cfg):
        super().__init__()
        self.save_hyperparameters(cfg)
        self.body, self.head = copy.deepcopy(net.body), copy.deepcopy(net.head)

    def training_step(self, batch, i):
        value = self.head(self.body(batch[0])).sum()
        self.log("loss", value)
        return value

    def configure_optimizers(self):
        o = torch.optim.SGD(self.parameters(), lr=0.0, momentum=0.9)
        return [o], [torch.optim.lr_scheduler.StepLR(o, 3)]


lit = Lit(OmegaConf.create({"lr": 0.1, "layers": [1, 2]}))
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(4, 3)), batch_size=2)
os.umask(0o022)
keep = pl.callbacks.ModelCheckpoint("lightning", monitor="loss", save_top_k=1)
trainer = pl.Trainer(max_epochs=1, accelerator="cpu", logger=False, callbacks=[keep], enable_progress_bar=False, enable_model_summary=False)
trainer.fit(lit, data)
trainer.save_checkpoint("lightning.ckpt")
twin("lightning", lit)
import shutil  # noqa: E402

shutil.rmtree("lightning", ignore_errors=True)
from mmengine.logging import HistoryBuffer  # noqa: E402

torch.save({"meta": {"epoch": 1, "iter": 10, "cfg": "model = dict()", "seed": 3, "experiment_name": "x", "time": "t", "mmengine_version": "0.10.7"}, "state_dict": sd,
            "message_hub": {"log_scalars": {"train/loss": HistoryBuffer([1.0, 0.5], [1, 1])}, "runtime_info": {"epoch": 1}, "resumed_keys": {"train/loss": True}},
            "optimizer": osd, "param_schedulers": [ssd]}, "mmengine.pth")
