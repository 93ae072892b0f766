"""`python make.py FOLDER`, run at the commit a folder is named after, made what the folders here hold."""

import json
import os
import sys
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
)

import rmt
from rmt.cli.main import main

SIZES = "--model.layers 1 --model.heads 2 --model.head_width 4 --model.width 8 --model.inner_width 8"
USUAL = f"{SIZES} --batch 4 --steps 4 --device cpu --train.keep 1 --quiet"
RUNS = {
    "copy-rmt": "copy --length 4 --segments 3 --train.evaluate_samples 8",
    "text-rmt": "text --data tale.txt --task.segment_length 16",
    "text-transformer_xl_rmt": "text --data tale.txt --task.segment_length 16 --task.tokens characters "
    "--model transformer_xl_rmt --memory 2 --cache 6",
}


def native(name: str) -> dict:
    """What a run computes, at once and in a session that was saved on the way."""
    main(["train", *RUNS[name].split(), *USUAL.split(), "--out", name])
    model = rmt.load(name).eval()
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(model.config.vocabulary, (2, 24), generator=generator)
    state, logits = model.initial_state(2), []
    with torch.no_grad():
        for segment in tokens.split(8, dim=1):
            output = model(segment, state)
            state = output.state
            logits.append(output.logits)
    return {
        "tokens": tokens.tolist(),
        "logits": torch.cat(logits, 1).double().sum(-1).tolist(),
        "value": json.loads(Path(name, "result.json").read_text())["value"],
        "session": in_a_session(rmt.Session(model, segment_length=8), tokens[0], 11, f"{name}.session"),
    }


def wrapped(name: str, model: torch.nn.Module) -> dict:
    """What a wrapped model computes of texts of several segments."""
    model = rmt.add_memory(model.eval(), memory=2, segment_length=6)
    model.save_pretrained(name)
    tokens = torch.randint(3, 32, (2, 20), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        output = model(input_ids=tokens, return_state=True)
    carried = {part: tensor.double().tolist() for part, tensor in output.state.named().items()}
    return {"tokens": tokens.tolist(), "logits": output.logits.double().tolist(), "carried": carried}


def in_a_session(session: rmt.Session, tokens: torch.Tensor, first: int, file: str) -> dict:
    session.feed(tokens[:first])
    session.save(file)
    session.feed(tokens[first:])
    return {"loss": session.score().loss, "logits": session.logits()[0].double().tolist()}


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    lines = (f"Line {n} of the tale: {'abcdefgh'[n % 8] * (n % 5)} and so on.\n" for n in range(120))
    Path("tale.txt").write_text("".join(lines))
    expected = {name: native(name) for name in RUNS}
    torch.manual_seed(0)
    sizes = {"vocab_size": 32, "bos_token_id": 0, "eos_token_id": 0}
    gpt2 = GPT2Config(n_positions=24, n_embd=8, n_layer=1, n_head=2, **sizes)
    bert = BertConfig(
        vocab_size=32,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=24,
        num_labels=3,
    )
    expected["wrapped-gpt2"] = wrapped("wrapped-gpt2", GPT2LMHeadModel(gpt2))
    expected["wrapped-bert"] = wrapped("wrapped-bert", BertForSequenceClassification(bert))
    decoder = AutoModelForCausalLM.from_pretrained("wrapped-gpt2").eval()
    tokens = torch.tensor(expected["wrapped-gpt2"]["tokens"][0])
    session = in_a_session(rmt.Session(decoder), tokens, 9, "wrapped-gpt2.session")
    expected["wrapped-gpt2"]["session"] = session
    Path("expected.json").write_text(json.dumps(expected))
