"""Three segments by hand: carry the state, cut it, then read the same tokens one at a time."""

import torch

from rmt import SegmentModel, presets

torch.manual_seed(0)
model = SegmentModel(presets.rmt(memory=4, vocabulary=12)).double().eval()
segments = torch.randint(12, (2, 24)).split(8, dim=1)  # 2 sequences of 24 tokens, in 3 segments of 8

state, whole = model.initial_state(2), []
for tokens in segments:
    output = model(tokens, state)  # memory carries gradient from segment to segment …
    state = output.state.detach()  # … until it is cut, here after each one
    whole.append(output.logits)

state, stepped = model.initial_state(2), []
for tokens in segments:
    segment = model.open(state)
    stepped += [segment.step(token) for token in tokens.split(1, dim=1)]
    state = segment.close()  # the write block runs here, once
print("largest difference:", (torch.cat(whole, dim=1) - torch.cat(stepped, dim=1)).abs().max().item())
