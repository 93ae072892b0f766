"""Work on a GPU as one CUDA graph: stands in for what branch `engine` has here."""

from __future__ import annotations

from rmt.core.recording import KEPT, Captured, Recorder, sent

__all__ = ["KEPT", "Captured", "Recorder", "sent"]
