"""The part of a pretrained model that encodes one segment, and memory that lives in its layers."""

# B batch · n rows of a layer's input · D width

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn
from transformers.utils.output_capturing import maybe_install_capturing_hooks

from rmt.hf.copies import with_part
from rmt.hf.families import Family, layers_path
from rmt.nn.backbone import Around

RECORDED = ("output_attentions", "output_hidden_states")


class SegmentBackbone:
    """A backbone as its own class computes it, knowing nothing of segments."""

    def __init__(self, model: Any):
        self.module: Any = model.segment_backbone()
        self.family: Family = model.family
        if self.module is model:  # a bare model is its own backbone
            self.plain_forward = type(model).plain.forward
            self.forward = partial(self.plain_forward, model)
        else:
            self.plain_forward = type(self.module).forward
            self.forward = self.module.forward

    def __call__(self, layers: Around | None = None, **inputs: Any) -> Any:
        """The backbone's output; `layers` is what this segment has around them."""
        if layers is None:
            return self.forward(**inputs)
        if any(inputs.get(name) or getattr(self.module.config, name, False) for name in RECORDED):
            maybe_install_capturing_hooks(self.module)  # once for the model, or each copy would add its own
        path = layers_path(self.module, self.family)
        stack = nn.ModuleList(
            SurroundedLayer(layer, index, layers)
            for index, layer in enumerate(self.module.get_submodule(path))
        )
        return self.plain_forward(with_part(self.module, path, stack), **inputs)


class SurroundedLayer(nn.Module):
    """A layer with what one segment has around it, outside of what checkpointing computes again."""

    def __init__(self, layer: nn.Module, index: int, around: Around):
        super().__init__()
        self.layer, self.index, self.around = layer, index, around

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The layer's own output for its input (B, n, D), which it may give beside other things."""
        if args:
            args = (self.around.before(self.index, args[0]), *args[1:])
        else:
            kwargs["hidden_states"] = self.around.before(self.index, kwargs["hidden_states"])
        output = self.layer(*args, **kwargs)
        self.around.after(self.index, output[0] if isinstance(output, tuple) else output)
        return output

    def __getattr__(self, name: str) -> Any:
        """What a backbone asks a layer for, such as its type of attention."""
        layer = super().__getattr__("layer")
        return layer if name == "layer" else getattr(layer, name)
