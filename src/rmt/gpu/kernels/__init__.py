"""Triton kernels, each together with the function that launches it; `rmt.gpu.naive` has their plain twins."""
