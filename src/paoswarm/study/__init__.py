"""Benchmark studies: configuration -> runs on disk -> statistics -> figures and report."""
