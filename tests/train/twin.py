"""The naive twin of training on text: one row and one segment at a time, every state kept."""

# M memory · D width

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.core.state import State
from rmt.train.trainer import Trainer
from tests.train.texts import BATCH, LENGTH, PASS, starts_anew


class Window(NamedTuple):
    places: range  # segments, counted over all passes
    counted: list[int]  # those whose losses count

    @property
    def replayed(self) -> range:
        return range(self.places.start, self.counted[0])


def window_of(bptt: dict[str, Any], number: int) -> Window:
    """What update `number` is made of."""
    depth = bptt["depth"]
    if bptt["schedule"] == "chunked":
        places = range(number * (depth + 1), (number + 1) * (depth + 1))
        return Window(places, list(places))
    return Window(range(max(0, number - depth), number + 1), [number])


class Twin:
    """One row and one segment at a time; every state is kept."""

    def __init__(self, trainer: Trainer, lanes: Tensor):
        self.model, self.config, self.lanes = trainer.model, trainer.config, lanes
        self.bptt = vars(self.config.bptt)
        self.behind: dict[int, list[State]] = {}  # the states of all rows before a segment, cut

    def losses(self, number: int) -> tuple[Tensor, Tensor]:
        """The mean loss of update `number`, and with the auxiliary loss of memory."""
        window = window_of(self.bptt, number)
        tokens, memory, after = [], [], []
        for row in range(BATCH):
            state = self.entering(window.places[0], row)
            for place in window.places:
                if self.bptt["replay_from"] == "latest" and place in window.replayed and place > 0:
                    stored = self.behind[place][row]
                    state = State(state.memory, stored.cache, stored.cached)
                if starts_anew(self.config.task.reset, place, row):
                    state = self.model.initial_state(1)
                start = place % PASS * LENGTH
                whole = self.lanes[row : row + 1, start : start + LENGTH + 1]
                output = self.model(whole[:, :-1], state)
                state = output.state
                if place in window.counted:
                    tokens.append(F.cross_entropy(output.logits[0], whole[0, 1:]))
                    memory.append(self.memory_loss(state.memory))
            after.append(state.detach())
        self.behind[window.places.stop] = after
        mean, auxiliary = torch.stack(tokens).mean(), torch.stack(memory).mean()
        return mean.detach(), mean + self.config.train.memory_loss * auxiliary

    def entering(self, place: int, row: int) -> State:
        """The state that a window starts from."""
        if place == 0:
            return self.model.initial_state(1)
        newest = max(self.behind)
        return self.behind[place if self.bptt["replay_from"] == "stored" else newest][row]

    def memory_loss(self, write: Tensor) -> Tensor:
        """Minus the mean log-probability of the last token at the written memory, (1, M, D)."""
        if not self.config.train.memory_loss:
            return torch.zeros(())
        return -self.model.embedding.logits(write).log_softmax(-1)[..., -1].mean()
