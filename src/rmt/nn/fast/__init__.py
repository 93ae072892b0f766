"""The layers once more, written for a GPU: the same function, few kernels, nothing compiled."""
