"""Documents with labels: read, classified by pretrained models with memory, measured."""
