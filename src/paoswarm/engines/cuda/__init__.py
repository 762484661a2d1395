"""The CUDA engine, apart from the others: kernels of our own, how they are laid out, and objectives as C."""
