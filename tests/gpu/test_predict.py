#!/usr/bin/env python3
"""predict.py on work whose time is known by hand, and what gpu_costs counts of models whose operations are known.

usage: test_predict.py GPU_COSTS MODEL.json     PG_CUDA_PLUGIN: the GPU of plain C"""
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import predict  # noqa: E402

PLUGIN = os.environ['PG_CUDA_PLUGIN']


def resnet50():
    """Multiplications and additions of a forward pass, and those of the first convolution: He et al., "Deep Residual Learning
    for Image Recognition", table 1, whose 1x1 convolutions stride."""
    def conv(size, kernel, inputs, outputs):
        return 2 * size * size * kernel * kernel * inputs * outputs
    first = conv(112, 7, 3, 64)
    total, inputs = first, 64
    for size, width, blocks in ((56, 64, 3), (28, 128, 4), (14, 256, 6), (7, 512, 3)):
        for block in range(blocks):
            total += conv(size, 1, inputs, width) + conv(size, 3, width, width) + conv(size, 1, width, 4 * width)
            total += conv(size, 1, inputs, 4 * width) if block == 0 else 0
            inputs = 4 * width
    return total + 2 * 2048 * 1000, first


class Predict(unittest.TestCase):
    def setUp(self):
        self.addCleanup(predict.GPUS.pop, 'made up')
        predict.GPUS['made up'] = {'memory': 1e9, 'f32': 1e12}

    def seconds(self, *parts, reached=None):
        found = predict.seconds(parts, 'made up', 'f32', reached)
        return [found[b] for b in predict.BOUNDS]

    def test_what_is_longest_bounds_a_call(self):
        half = {'memory': 0.5, 'f32': 0.5}
        self.assertEqual(self.seconds((2e12, 1e9, 1)), [2, 0, 0])
        self.assertEqual(self.seconds((2e12, 4e9, 1)), [0, 4, 0])
        self.assertEqual(self.seconds((2e12, 0, 1), (0, 3e9, 1)), [2, 3, 0])
        self.assertEqual(self.seconds((2e12, 4e9, 1), reached=half), [0, 8, 0])
        self.assertEqual(self.seconds((1, 1, 1000), reached=half), [0, 0, 1000 * predict.KERNEL])

    def test_recorded_steps_do_not_wait_for_the_host(self):
        predict.GPUS['made up'].update(f32=1e30, memory=1e30)
        least, default, tuned, shares = predict.predict([(1, 1, 1000)], 'made up', 'f32')
        self.assertLess(least, 1e-6)
        self.assertAlmostEqual(default, 1e6 * predict.LAUNCH)
        self.assertAlmostEqual(tuned, 1e6 * predict.KERNEL)
        self.assertEqual(shares, {'compute': 0, 'memory': 0, 'launches': 1})

    def test_resnet50_has_the_operations_of_its_paper(self):
        forward, first = resnet50()
        self.assertAlmostEqual(forward / 2 / 1e9, 3.8, delta=0.1)  # as the paper rounds it
        found = predict.costs(sys.argv[1], PLUGIN, 'resnet50', 2, 'f32')
        flops = {}
        for op, n, _, launches in found['calls']:
            flops[op] = flops.get(op, 0) + n
            self.assertGreaterEqual(launches, 1, op)
        self.assertEqual(flops['conv'] + flops['dense'], 2 * forward)
        self.assertEqual(sum(flops.values()), 2 * (3 * forward - first))  # pictures have no gradient
        self.assertEqual((found['variables'], found['elements'], found['slots']), (214, 25583592, 1))
        half = predict.costs(sys.argv[1], PLUGIN, 'resnet50', 2, 'bf16')
        self.assertEqual(sum(c[1] for c in half['calls']), sum(flops.values()))
        self.assertLess(sum(c[2] for c in half['calls']), 0.6 * sum(c[2] for c in found['calls']))

    def test_every_launch_counts(self):
        found = predict.costs(sys.argv[1], PLUGIN, sys.argv[2], 3, 'f32')
        parts = predict.work(found, 'f32')
        self.assertEqual(len(parts), len(found['calls']) + 2)
        self.assertGreaterEqual(sum(p[2] for p in parts), len(found['calls']) + found['variables'])
        self.assertEqual(parts[-1][1], 4 * found['elements'] * (3 + 2 * found['slots']))

    def test_all_that_is_measured_was_predicted(self):
        known = predict.read()
        wanted = {(gpu, model, batch, precision) for gpu in ('H100', 'H200') for model, (batches, *_) in predict.MODELS.items()
                  for batch in batches for precision in predict.PRECISIONS}
        self.assertEqual(set(known), wanted)
        self.assertTrue(all(default >= tuned > 0 for default, tuned in known.values()))

    def test_a_gpu_is_known_by_its_name(self):
        self.assertEqual(predict.gpu_of('NVIDIA H200'), 'H200')
        self.assertEqual(predict.gpu_of('NVIDIA H100 80GB HBM3'), 'H100')
        self.assertIsNone(predict.gpu_of('NVIDIA H100 PCIe'))
        self.assertIsNone(predict.gpu_of('NVIDIA A100-SXM4-80GB'))


unittest.main(argv=sys.argv[:1])
