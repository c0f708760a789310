#!/usr/bin/env python3
"""Writes small checkpoints of several files with the frameworks themselves.

usage: gen.py dcp OUT        with torch 2.5.1
       gen.py tensorflow OUT with tensorflow-cpu==2.15.1

What else lies here are files out of larger sets that DeepSpeed, Flax, Orbax and torch wrote (gen_ds.py, gen_jax.py, gen_torch.py); manifest.json says which. Of the Orbax folder
the arrays are left out, of DeepSpeed's its own script zero_to_fp32.py.
"""
import os
import sys

what, out = sys.argv[1:]
if what == "dcp":
    import torch
    import torch.distributed.checkpoint as dcp

    torch.manual_seed(1)
    dcp.save({"model": {"w": torch.rand(4, 3), "b": torch.rand(3)}, "step": 7}, checkpoint_id=os.path.join(out, "dcp"))
else:
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    import tensorflow as tf

    root = tf.Module()
    root.w = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    tf.train.Checkpoint(root).save(os.path.join(out, "tf", "ckpt"))
    tf.saved_model.save(root, os.path.join(out, "savedmodel"))
