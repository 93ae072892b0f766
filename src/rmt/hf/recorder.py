"""When a segment of a wrapped model is recorded: on a GPU, the second time that a call brings its form.

What a recording reads stays where it is while weights learn. Whatever else may change between two calls is
looked at before each of them, and where it did, recordings are dropped: weights in another memory, training
or evaluation, a switched adapter, another probability of dropout. What a recording would leave out is
computed as it is: hooks, checkpoints, memory in the layers. Recordings are kept here and not on the model, so
they are in no copy of it and in no file.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Iterator
from math import ceil
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from rmt.gpu.graphs import autocast_state
from rmt.hf.backbone import RECORDED, SegmentBackbone
from rmt.hf.cell import Cell, Packed
from rmt.hf.copies import with_attention, with_weights
from rmt.hf.families import limit_of
from rmt.hf.graphs import GraphLauncher, HostWaits, Launcher, Recording, RecordingSlot, Replayed, SideBySide
from rmt.hf.masks import sliding_window_of
from rmt.hf.segments import TextSegment, lengthened, padding_id
from rmt.hf.unmasked import unmasked_implementation

log = logging.getLogger(__name__)
ROUNDED_TO = 128  # places: lengths of ragged segments repeat; of 512, an eighth is padding on average
ALIGNED_TO = 8  # places: masks of other widths have no quick kernels
MOST_SLOTS = 32  # segments whose gradient is waited for at a time; those beyond are computed as they are
INPUTS = ("embedded", "exists", "kind", "types")  # of a packed segment that the backbone is given
HARMLESS = ("return_dict", "use_cache", "num_items_in_batch")  # options that change no output of a backbone
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
MODULE_FIELDS = frozenset(vars(nn.Module()))  # torch's own, looked at apart
SIMPLE = (bool, int, float, str, type(None))
LAUNCHERS: dict[str, Callable[[torch.device], Launcher]] = {"cuda": GraphLauncher}  # by type of device
recorders: WeakKeyDictionary[nn.Module, SegmentRecorder] = WeakKeyDictionary()


def recorder_of(model: Any, options: dict[str, Any], device: torch.device) -> SegmentRecorder | None:
    """The recorder of a model for one call of it; None where segments have to be computed as they are."""
    if device.type not in LAUNCHERS or reason_not_recorded(model, options):
        return None
    recorder = recorders.get(model)
    stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
    situation = (device, stream, *situation_of(model))
    if recorder is None or recorder.situation != situation:
        recorders[model] = recorder = SegmentRecorder(model, situation, LAUNCHERS[device.type](device))
    return recorder.begin()


class SegmentRecorder:
    """The recordings of one model in one situation."""

    def __init__(self, model: Any, situation: tuple[Hashable, ...], launcher: Launcher):
        self.situation, self.launcher = situation, launcher
        self.parameters = list(SegmentBackbone(model).module.parameters())
        leaves = {
            id(weight): nn.Parameter(weight.detach(), weight.requires_grad) for weight in model.parameters()
        }
        self.weights = [leaves[id(weight)] for weight in self.parameters]
        options = {"return_dict": True, **({"use_cache": False} if model.family.kind == "decoder" else {})}
        self.cells = {whole: Cell(recordable_copy(model, leaves, whole), options) for whole in (True, False)}
        self.lengths = Lengths.of(model)
        self.padding = padding_id(model.config)
        self.slots: list[RecordingSlot] = []
        self.seen: set[Hashable] = set()  # forms of earlier calls
        self.current: set[Hashable] = set()  # and of this one
        self.gathered: dict[tuple[bool, ...], list[Tensor]] = {}  # the weights of this call, side by side
        self.enabled = True

    def begin(self) -> SegmentRecorder:
        """A call begins: what the last one brought comes a second time from now on."""
        self.seen |= self.current
        self.current.clear()
        self.gathered.clear()
        return self

    def lengthened(self, segment: TextSegment) -> TextSegment:
        """The segment with so much padding that its length is one of a few."""
        length = segment.exists.shape[1]
        if segment.whole and length == self.lengths.longest:
            return segment
        return lengthened(segment, self.lengths.rounded(length), self.padding)

    def __call__(self, packed: Packed) -> Any:
        """The backbone's output by a recording; None where there is none yet."""
        names = [name for name in INPUTS if getattr(packed, name) is not None]
        inputs = [getattr(packed, name) for name in names]
        asked = any(tensor.requires_grad for tensor in (*inputs, *self.weights))
        learns = torch.is_grad_enabled() and asked
        if not self.enabled or (learns and saved_elsewhere()):
            return None
        form = (*names, *(form_of(tensor, learns) for tensor in inputs), learns, *autocast_state())
        self.current.add(form)
        slot = self.free_slot() if form in self.seen else None
        if slot is None:
            return None
        if form not in slot.recordings:
            self.record(slot, form, dict(zip(names, inputs, strict=True)), learns)
        if form not in slot.recordings:
            return None
        recording = slot.recordings[form]
        return recording.work.output_class(last_hidden_state=self.replayed(slot, recording, inputs))

    def replayed(self, slot: RecordingSlot, recording: Recording, inputs: list[Tensor]) -> Tensor:
        """The output of a recording; if its gradient can be asked for, the slot is taken until then."""
        if not recording.learns:
            with torch.inference_mode(False), torch.no_grad():
                return recording.replay_forward(inputs)
        weights = self.side_by_side(recording.of_weights.used)
        output: Tensor = Replayed.apply(recording, slot.hold(), len(inputs), *inputs, *weights)
        return output

    def side_by_side(self, used: tuple[bool, ...]) -> list[Tensor]:
        """What stands for the weights that are used, the same for all segments of a call."""
        if used not in self.gathered:
            trained = [weight for weight in self.parameters if weight.requires_grad]
            weights = [weight for weight, has_part in zip(trained, used, strict=True) if has_part]
            formats = dict.fromkeys(weight.dtype for weight in weights)
            self.gathered[used] = [
                SideBySide.apply(*(weight for weight in weights if weight.dtype == dtype))
                for dtype in formats
            ]
        return self.gathered[used]

    def free_slot(self) -> RecordingSlot | None:
        """A slot that no gradient is waited for in."""
        free = next((slot for slot in self.slots if slot.free), None)
        if free is None and len(self.slots) < MOST_SLOTS:
            self.slots.append(free := RecordingSlot(self.launcher.new_pool()))
        return free

    def record(self, slot: RecordingSlot, form: Hashable, inputs: dict[str, Tensor], learns: bool) -> None:
        """Record a form in a slot; where that cannot be done, nothing is recorded any more."""
        work = SegmentWork(self.cells["exists" not in inputs], tuple(inputs))
        first = all(form not in other.recordings for other in self.slots)
        weights = [weight for weight in self.weights if weight.requires_grad]
        try:
            with torch.inference_mode(False):
                recording = Recording(work, list(inputs.values()), weights, learns)
                slot.keep(form, recording.record(self.launcher, slot.pool, first))
        except (HostWaits, torch.OutOfMemoryError) as error:
            log.info("segments are not recorded from now on: %s", error)
            self.enabled = False
            self.slots.clear()


class Lengths(NamedTuple):
    """The few lengths that segments with padding have."""

    longest: int  # tokens of a whole segment, special ones too
    blocks: int  # places of memory beside them
    limit: int | None  # places that the model has

    @classmethod
    def of(cls, model: Any) -> Lengths:
        settings, memory = model.settings, model.memory
        special = settings.prefix + settings.suffix + model.layout.separator
        limit = limit_of(model.config, model.family)
        return cls(settings.segment_length + special, memory.read_size + memory.write_size, limit)

    def rounded(self, length: int) -> int:
        """The next longer of them."""
        whole = round_up(self.longest + self.blocks, ALIGNED_TO)
        places = min(round_up(length + self.blocks, ROUNDED_TO), whole)
        return min(places, self.limit or places) - self.blocks


def round_up(count: int, multiple: int) -> int:
    return multiple * ceil(count / multiple)


class SegmentWork:
    """What is recorded: the last layer's output, by the names of a packed segment's tensors."""

    output_class: Any  # of the backbone, once it has answered

    def __init__(self, cell: Cell, names: tuple[str, ...]):
        self.cell, self.names = cell, names

    def __call__(self, *tensors: Tensor) -> Tensor:
        output = self.cell.run_packed(Packed(**dict(zip(self.names, tensors, strict=True))))
        self.output_class = type(output)
        hidden: Tensor = output.last_hidden_state
        return hidden


def recordable_copy(model: Any, leaves: dict[int, nn.Parameter], whole: bool) -> Any:
    """The model around leaves of its own for autograd, without what a segment does not need."""
    copied = with_weights(model, leaves)
    local = getattr(copied.config, "global_attn_every_n_layers", 0) or sliding_window_of(copied.config)
    if whole and not local and copied.config._attn_implementation == "sdpa":
        memory = copied.memory
        name = unmasked_implementation(copied.layout, memory.read_size, memory.write_size)
        copied = with_attention(copied, name)
    backbone = copied.segment_backbone()
    if "pooler" in backbone._modules:
        backbone._modules["pooler"] = None
    return copied


def form_of(tensor: Tensor, learns: bool) -> Hashable:
    return tensor.shape, tensor.dtype, learns and tensor.requires_grad


def saved_elsewhere() -> bool:
    """Whether what autograd keeps goes through hooks now, as in a checkpoint."""
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None


def reason_not_recorded(model: Any, options: dict[str, Any]) -> str:
    """Why this call's segments are computed as they are, in a line; nothing if they can be recorded."""
    memory, config, backbone = model.memory, model.config, SegmentBackbone(model).module
    if memory.in_layers or memory.read_size + memory.write_size == 0:
        return "memory is in the layers, or there is none"
    if model.settings.cache:
        return "a cache is in the layers"
    further = [name for name, value in options.items() if name not in HARMLESS and value is not False]
    if further:
        return f"{', '.join(further)} may ask for more than the last layer's output"
    if any(getattr(config, name, False) for name in RECORDED):
        return "the configuration asks for more than the last layer's output"
    if threading.current_thread() is not threading.main_thread():
        return "recording disturbs other threads' random numbers; only the main thread does it"
    if torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None:
        return "the call is being traced or transformed"
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return "the call is being recorded from outside"
    return next(reasons_of_parts(backbone, bare=backbone is model), "")


def reasons_of_parts(backbone: nn.Module, bare: bool) -> Iterator[str]:
    """What in the parts of a backbone a recording would leave out."""
    for name, part in backbone.named_modules():
        outside = bare and part is backbone  # called by the user, not by a segment
        if not outside and ("forward" in part.__dict__ or part._compiled_call_impl is not None):
            yield f"{name} has a forward of its own"
        if not outside and any(map(is_foreign, hooks_of(part))):
            yield f"{name} has hooks"
        if part.training and getattr(part, "gradient_checkpointing", False):
            yield f"{name} is computed again in the backward pass"
        if part.training and getattr(part, "layerdrop", 0):
            yield f"{name} leaves out layers at random"
        if any(
            type(weight) is not nn.Parameter for weight in part._parameters.values() if weight is not None
        ):
            yield f"{name} has weights of a class of their own"


def hooks_of(part: nn.Module) -> Iterator[Any]:
    for field in HOOKS:
        yield from getattr(part, field).values()


def is_foreign(hook: Any) -> bool:
    """Whether a hook is not one of those by which transformers gives out layers, if it is asked to."""
    return getattr(hook, "__module__", "") != "transformers.utils.output_capturing"


def situation_of(model: Any) -> Iterator[Hashable]:
    """Everything that may change between two calls, and that a recording depends on."""
    backbone = SegmentBackbone(model).module
    yield backbone.config._attn_implementation
    for part in backbone.modules():
        yield id(part)
        yield from simple_values(part)
        for weight in (*part._parameters.values(), *part._buffers.values()):
            if weight is not None:
                yield id(weight), weight.data_ptr(), weight.requires_grad


def simple_values(part: nn.Module) -> Iterator[Hashable]:
    """The numbers and words on a module: its probabilities, whether it trains, which adapter is active."""
    yield part.training
    for name, value in part.__dict__.items():
        if name in MODULE_FIELDS:
            continue
        if type(value) in SIMPLE:
            yield value
        elif type(value) in (list, tuple, dict, set):
            items = value.items() if type(value) is dict else enumerate(value)
            yield tuple((key, item) for key, item in items if type(item) in SIMPLE)
