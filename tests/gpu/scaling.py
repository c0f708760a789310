#!/usr/bin/env python3
"""Scaling to several GPUs on paper: the schedule of buckets.c, played with times that one GPU was measured to take.

usage: scaling.py PROFILE.json [--devices 8] [--bandwidth B/s] [--latency S]

PROFILE.json is what gpu_profile writes. Calls take their measured times, scaled so that they add up to a whole run; a bucket's
sum begins when the last call that touches it has ended and the sums before it have; it takes --latency and 2 (n - 1) / n of
its bytes at --bandwidth, the bus bandwidth that nccl-tests tells for all_reduce_perf. The update comes after the last sum.
Efficiency is the step of one GPU by that of n, each with the same rows. No more than that: neither the host nor the share of
the GPU that NCCL takes from the backward pass is in it."""
import argparse
import json


def play(profile, devices, bandwidth, latency):
    """Seconds of a step of one device, and of several; and of the sums that nothing hides."""
    calls = profile['calls']
    factor = profile['whole'] / sum(calls)
    ends = [0.0]
    for seconds in calls:
        ends.append(ends[-1] + seconds * factor)
    summed = settled = 0
    for bucket in profile['buckets']:
        settled = max(settled, bucket['settled'])
        moved = 2 * (devices - 1) / devices * bucket['bytes'] / bandwidth
        if devices > 1:
            summed = max(summed, ends[settled]) + latency + moved
    alone = ends[-1] + profile['update']
    together = max(ends[-1], summed) + profile['update']
    return alone, together, together - alone


def main():
    options = argparse.ArgumentParser(description='Scaling to several GPUs on paper.')
    options.add_argument('profile')
    options.add_argument('--devices', type=int, default=8)
    options.add_argument('--bandwidth', type=float, default=200e9, help='bus bandwidth of sums in B/s (200e9, assumed)')
    options.add_argument('--latency', type=float, default=50e-6, help='of a sum, in seconds (50e-6, assumed)')
    options = options.parse_args()
    with open(options.profile, encoding='utf-8') as f:
        profile = json.load(f)
    alone, together, bare = play(profile, options.devices, options.bandwidth, options.latency)
    print('on paper: %d GPUs, efficiency %.3f: a step %.3f ms, alone %.3f ms, %.3f ms of sums not hidden (%s; %.0f GB/s, %.0f us)' %
          (options.devices, alone / together, together * 1e3, alone * 1e3, bare * 1e3, profile['device'],
           options.bandwidth / 1e9, options.latency * 1e6))


if __name__ == '__main__':
    main()
