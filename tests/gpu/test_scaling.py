#!/usr/bin/env python3
"""scaling.py on profiles whose answer is known by hand, and on what gpu_profile writes.

usage: test_scaling.py GPU_PROFILE MODEL.json"""
import json
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from scaling import play  # noqa: E402

MB = 1 << 20


def profile(calls, buckets, whole=None, update=0.0):
    return {'calls': calls, 'whole': whole or sum(calls), 'update': update, 'device': 'made up',
            'buckets': [{'bytes': b, 'settled': s} for b, s in buckets]}


class Scaling(unittest.TestCase):
    def test_one_device_has_nothing_to_sum(self):
        self.assertEqual(play(profile([1.0, 2.0], [(MB, 2)], update=0.5), 1, 1e9, 1.0), (3.5, 3.5, 0.0))

    def test_one_bucket_is_summed_behind_the_pass(self):
        # 2 (2 - 1) / 2 of 4 MB at 4 MB/s: a second, and a quarter of latency.
        alone, together, bare = play(profile([1.0, 2.0], [(4 * MB, 2)], update=0.5), 2, 4 * MB, 0.25)
        self.assertEqual((alone, together, bare), (3.5, 4.75, 1.25))

    def test_what_is_complete_early_is_hidden(self):
        # The first bucket is complete after 1 s and summed by 1 + 1; the other after 3 s, which takes 0.25 s.
        alone, together, bare = play(profile([1.0, 2.0], [(4 * MB, 1), (MB, 2)]), 2, 4 * MB, 0)
        self.assertEqual((alone, together, bare), (3.0, 3.25, 0.25))

    def test_sums_wait_for_each_other(self):
        # At 1 MB/s the early one goes on until 1 + 4, and the other one follows.
        self.assertEqual(play(profile([1.0, 2.0], [(4 * MB, 1), (MB, 2)]), 2, MB, 0)[1], 6.0)

    def test_more_devices_move_more(self):
        self.assertEqual(play(profile([1.0], [(4 * MB, 1)]), 4, MB, 0)[1], 1 + 1.5 * 4)

    def test_calls_add_up_to_the_whole(self):
        # Measured one by one they took twice as long.
        self.assertEqual(play(profile([2.0, 4.0], [(4 * MB, 1), (MB, 2)], whole=3.0), 2, 4 * MB, 0), (3.0, 3.25, 0.25))

    def test_a_bucket_is_not_summed_before_those_ahead_of_it(self):
        # Its calls have ended after a second, those of the first one after three.
        self.assertEqual(play(profile([1.0, 2.0], [(MB, 2), (MB, 1)]), 2, MB, 0)[1], 5.0)

    def test_what_is_measured_can_be_played(self):
        said = subprocess.run([sys.argv[1], sys.argv[2], 'categorical_crossentropy', '32', 'cuda:0'], capture_output=True,
                              text=True, check=True, env=dict(os.environ, PG_BUCKET_BYTES='1')).stdout
        found = json.loads(said)
        ends = [b['settled'] for b in found['buckets']]
        self.assertGreater(len(ends), 3)
        self.assertLess(ends[0], max(ends)) # the last variables' gradients are there first
        self.assertLessEqual(max(ends), len(found['calls']))
        alone, together, _ = play(found, 8, 1e9, 1e-6)
        self.assertLess(alone, together)


unittest.main(argv=sys.argv[:1])
