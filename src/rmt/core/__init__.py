"""The paper: segments, memory, cache, and the recurrence between them."""
