"""Models on a GPU: the same functions in few kernels, recorded and replayed; the plain model never knows."""
