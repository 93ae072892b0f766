"""The GPU floor: one engine that runs segment models in kernels written for them."""
