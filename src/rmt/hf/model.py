"""Memory for pretrained classes: the head is the class's own, only its backbone goes segment by segment."""

# B batch · T places of the given rows

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from rmt.core.inputs import whole_number
from rmt.core.memory import Memory
from rmt.core.state import State
from rmt.core.token_memory import EARLIER
from rmt.hf.copies import with_forward, with_part
from rmt.hf.families import (
    POOLED,
    Family,
    Layout,
    family_named,
    head_of,
    layer_width,
    segment_backbone,
)
from rmt.hf.inputs import TextForm, checked_inputs, named_arguments
from rmt.hf.limit import save_unlimited, upload_unlimited, warn_of_saved_limit
from rmt.hf.memory_module import embedding_width, memory_module
from rmt.hf.segmentwise import SegmentwiseCall
from rmt.hf.settings import MemorySettings, layout_of, settings_of
from rmt.location import require_trust, trusting

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    class PretrainedClass(PreTrainedModel):
        """What a class with memory stands in front of."""

        def generate(self, *args: Any, **kwargs: Any) -> Any: ...

        def prepare_inputs_for_generation(self, *args: Any, **kwargs: Any) -> dict[str, Any]: ...

        def _expand_inputs_for_generation(self, *args: Any, **kwargs: Any) -> Any: ...

else:
    PretrainedClass = object

RENAMED = {rf"^memory\.{earlier}$": f"memory.{name}" for earlier, name in EARLIER.items()}


class WithMemory(PretrainedClass):
    """What every class with memory has, whatever its family."""

    plain: ClassVar[type]  # the pretrained class itself
    memory: Memory
    family: Family
    settings: MemorySettings
    layout: Layout  # as it is beside the read block of this memory

    def __init__(self, config: Any, *args: Any, **kwargs: Any):
        super().__init__(config, *args, **kwargs)
        backbone = self.base_model
        if backbone is not self and isinstance(backbone, WithMemory):  # AutoModel made it, from this config
            del backbone.memory
            backbone.__class__ = type(backbone).plain
        self.add_memory_module()

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """As the class's own, also where memory was saved under an earlier name.

        `trust_remote_code=True` also lets a kind of memory run that the saved model names as module:Class.
        """
        kwargs["key_mapping"] = {**RENAMED, **(kwargs.get("key_mapping") or {})}
        with trusting(bool(kwargs.get("trust_remote_code"))):
            loaded = super().from_pretrained(*args, **kwargs)
        model: Any = loaded[0] if isinstance(loaded, tuple) else loaded
        warn_of_saved_limit(Path(model.config.name_or_path))
        model._weight_conversions = [  # else it would be saved under that name again
            conversion
            for conversion in model._weight_conversions
            if not set(conversion.source_patterns) & set(RENAMED)
        ]
        return loaded

    def extra_repr(self) -> str:
        """The sizes of memory, above the class's own modules."""
        parameters = sum(parameter.numel() for parameter in self.parameters())
        settings = self.settings
        memory = f"memory {settings.memory} ({settings.kind})"
        if settings.cache:
            memory += f", cache {settings.cache_config}"
        return f"{memory}, segments of {settings.segment_length}, {parameters:,} parameters"

    def save_pretrained(
        self, save_directory: str | PathLike[str], *args: Any, tokenizer: Any = None, **kwargs: Any
    ) -> None:
        """As the class's own; a tokenizer saved with the model, or there before it, has no limit any more."""
        plain: Any = self.plain
        arguments = named_arguments(plain.save_pretrained, (save_directory, *args), kwargs)
        writes = arguments.get("is_main_process", True)
        if writes:
            save_unlimited(tokenizer, Path(save_directory))
        super().save_pretrained(**arguments)
        if writes and tokenizer is not None and arguments.get("push_to_hub"):
            upload_unlimited(tokenizer, arguments)

    def add_memory_module(self) -> None:
        """Build the memory that the settings ask for, its tokens at the size of token embeddings."""
        self.family = family_named(self.config.model_type)
        self.settings = settings_of(self.config)
        require_trust(self.settings.kind, "config.rmt.kind", self.config.name_or_path or "the model")
        weight = self.segment_backbone().get_input_embeddings().weight
        with torch.device(weight.device):
            memory = memory_module(self, self.family, self.settings)
        self.memory = memory.to(weight.dtype)
        self.layout = layout_of(self.family, self.settings.layout).beside(memory.read_size)
        self._init_weights(self.memory)

    def _init_weights(self, module: nn.Module) -> None:
        """Draw initial parameters; memory draws its own, with tokens of the size of a text's."""
        memory: Memory | None = getattr(self, "memory", None)
        if memory is None or all(module is not part for part in memory.modules()):
            super()._init_weights(module)
        elif module is memory:
            from transformers.initialization import guard_torch_init_functions, normal_

            with guard_torch_init_functions():  # what was loaded stays
                memory.reset_parameters()
            for part in memory.modules():
                if isinstance(part, nn.Embedding):
                    normal_(part.weight, std=self.settings.embedding_rms)
            entrance: Any = getattr(memory, "entrance", None)
            if entrance is not None:
                normal_(entrance.weight, std=entrance.in_features**-0.5)

    def initial_state(self, batch: int) -> State:
        """The state before the first segment of `batch` texts."""
        like = next(self.memory.parameters())
        cached = torch.zeros(whole_number("batch", batch, zero=True), dtype=torch.long, device=like.device)
        rows, width = self.settings.cache_config.rows, layer_width(self.config, embedding_width(self.memory))
        empty = like.new_zeros(()).expand(batch, rows, width)
        return State(self.memory.initial(batch), (empty,) * self.memory.layers if rows else (), cached)

    def segment_backbone(self) -> Any:
        """The part that encodes segments, in whose place the call of a whole text stands."""
        return segment_backbone(self, self.family)

    def call_with_memory(self, forward: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """The class's own `forward`, on texts of any length."""
        state, return_state = arguments.pop("state", None), arguments.pop("return_state", None)
        as_object = arguments.pop("return_dict", None)
        as_object = self.config.return_dict if as_object is None else as_object
        self.warn_if_frozen()
        if arguments.get("encoder_outputs") is None:
            arguments = checked_inputs(arguments, self.text_form(arguments))
        output, state = self.output_and_state(forward, arguments, state)
        if return_state:
            output["state"] = self.state_after(arguments, state)
        return output if as_object else output.to_tuple()

    def output_and_state(
        self, forward: Callable[..., Any], arguments: dict[str, Any], state: State | None
    ) -> tuple[Any, State | None]:
        """The output and the state after the text."""
        call = self.backbone_call(arguments, state)
        if self.segment_backbone() is self:
            return call(**arguments), call.state
        if head_of(type(self)) not in POOLED:
            return self.run_head(call, forward, arguments), call.state
        order = order_to_the_left(arguments.get("attention_mask"))
        output = self.run_head(call, forward, to_the_left(arguments, order))
        if order is not None and output.get("hidden_states") is not None:
            output.hidden_states = tuple(moved_back(layer, order) for layer in output.hidden_states)
        return output, call.state

    def backbone_call(self, arguments: dict[str, Any], state: State | None) -> SegmentwiseCall:
        """The call that stands in for the backbone's `forward`: segment after segment from this state."""
        return SegmentwiseCall(self, state)

    def text_form(self, arguments: dict[str, Any]) -> TextForm:
        """What the text among the arguments has to be."""
        choices = head_of(type(self)) == "ForMultipleChoice"
        return TextForm(embedding_width(self.memory), choices, self.tokens_seen(arguments))

    def tokens_seen(self, arguments: dict[str, Any]) -> int:
        """How many tokens a cache among the arguments has seen."""
        return 0

    def state_after(self, arguments: dict[str, Any], state: State | None) -> State | None:
        """The state after a call that ended in `state`."""
        return state

    def run_head(
        self, call: Callable[..., Any], forward: Callable[..., Any], arguments: dict[str, Any]
    ) -> Any:
        """The output of the class's own `forward`, its head, where `call` stands in for its backbone.

        It runs on a shallow copy of this model: no call changes a module that another one may be using.
        """
        prefix = "" if self.base_model is self else self.base_model_prefix
        path = ".".join(name for name in (prefix, self.family.inside) if name)
        backbone = with_forward(self.segment_backbone(), call)
        return forward(with_part(self, path, backbone), **arguments, return_dict=True)

    def warn_if_frozen(self) -> None:
        """Say that memory does not learn although other weights do: adapters freeze what they do not know."""
        if not self.training or not self.settings.memory or not torch.is_grad_enabled():
            return
        if any(parameter.requires_grad for parameter in self.memory.parameters()):
            return
        if any(parameter.requires_grad for parameter in self.parameters()):
            warnings.warn(
                "memory is frozen while other weights are trained, and an adapter will not save it; "
                "name it in the adapter's configuration: modules_to_save=['memory']",
                stacklevel=4,
            )


class EncoderMemory(WithMemory):
    """Encoders: everything in a segment sees its memory, and memory sees everything."""


def order_to_the_left(mask: Any) -> Tensor | None:
    """The order (B, T), with choices (B, C, T), that brings what exists to the left; None without a mask.

    Heads that pool look at the first place, or at the last token.
    """
    if not isinstance(mask, Tensor) or mask.dim() not in (2, 3):
        return None
    return (mask == 0).to(torch.uint8).argsort(dim=-1, stable=True)


def to_the_left(arguments: dict[str, Any], order: Tensor | None) -> dict[str, Any]:
    """The arguments of a call with its inputs in this order, padding on the right."""
    if order is None:
        return arguments
    moved = {
        name: arguments[name].take_along_dim(order, dim=-1)
        for name in ("input_ids", "token_type_ids", "attention_mask")
        if arguments.get(name) is not None
    }
    if arguments.get("inputs_embeds") is not None:
        moved["inputs_embeds"] = arguments["inputs_embeds"].take_along_dim(order[..., None], dim=-2)
    return {**arguments, **moved}


def moved_back(hidden: Tensor, order: Tensor) -> Tensor:
    """States (B, T, D), or (B·C, T, D), of inputs in this order, each where its token was given."""
    return hidden.take_along_dim(order.flatten(0, -2).argsort(dim=-1)[..., None], dim=1)


def signature_of(forward: Callable[..., Any]) -> inspect.Signature:
    """The class's own signature with `state` and `return_state`: trainers read argument names from it."""
    signature = inspect.signature(forward)
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter("state", keyword, default=None, annotation="State | None"),
        inspect.Parameter("return_state", keyword, default=False, annotation="bool"),
    ]
    parameters = list(signature.parameters.values())
    named = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    rest = [parameter for parameter in parameters if parameter.kind is parameter.VAR_KEYWORD]
    return signature.replace(parameters=[*named, *added, *rest])
