"""Benchmarks: the gateway beside nginx and other gateways, interleaved, as medians and ratios.

``python -m benchmarks --help`` says how to run them.
"""
