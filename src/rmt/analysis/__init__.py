"""Looking into the memory."""
