"""An exported segment is the model: a stream through it gives what a session gives."""

import json

import pytest
import torch
from safetensors.torch import load_file

import rmt
from rmt.errors import ConfigError
from rmt.infer.export import export

LENGTH, BATCH, SEGMENTS = 6, 2, 8
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def native(**options):
    torch.manual_seed(0)
    sizes = {"vocabulary": 20, "layers": 2, "heads": 2, "head_width": 8, "width": 16, "inner_width": 24}
    model = rmt.SegmentModel(rmt.ModelConfig(**sizes, dropout=0.0, **options)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.7)  # rounding grows from segment to segment in a model that never learned
    return model


MODELS = {
    "rmt": {"memory": rmt.MemoryConfig(size=3)},
    "transformer-xl-rmt": {"memory": rmt.MemoryConfig(size=3), "cache": rmt.CacheConfig(size=5)},
    "rotary": {"memory": rmt.MemoryConfig(size=3), "positions": "rotary"},
    "associative": {"memory": rmt.MemoryConfig(size=3, kind="associative")},
}


def wrapped():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        num_key_value_heads=1,
        max_position_embeddings=64,
    )
    base = transformers.LlamaForCausalLM(config).eval()
    return rmt.add_memory(base, memory=3, segment_length=LENGTH, kind="tokens").eval()


def made(name):
    return wrapped() if name == "llama" else native(**MODELS[name])


def streamed(files, run):
    """Logits of a stream and its last state, by the files alone: this loop is all that a caller writes."""
    description = json.loads(files.description.read_text())
    state = load_file(files.initial_state)
    names = [name for name in description["inputs"] if name != "tokens"]
    logits = []
    for tokens in stream().split(LENGTH, dim=1):
        outputs = run(
            {"tokens": tokens, **{name: state[name] for name in names}}, list(description["outputs"])
        )
        logits.append(outputs["logits"])
        state = {name: outputs[f"next.{name}"] for name in names}
    return torch.cat(logits, dim=1)


def stream():
    return torch.randint(3, 20, (BATCH, LENGTH * SEGMENTS), generator=torch.Generator().manual_seed(1))


def by_session(model):
    """The log-probabilities that a session gives to the tokens of the stream, but the first."""
    session = rmt.Session(model, segment_length=LENGTH, batch=BATCH)
    return session.feed(stream(), returns="log_probs")[:, 1:]


def of_tokens(logits):
    """The same of logits."""
    known = logits[:, :-1].log_softmax(-1)
    return known.gather(-1, stream()[:, 1:, None]).squeeze(-1)


def torch_runner(files):
    program = torch.export.load(files.program).module()

    def run(inputs, names):
        return dict(zip(names, program(*inputs.values()), strict=True))

    return run


def onnx_runner(files):
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(files.program), options)
    known = {value.name for value in session.get_inputs()}

    def run(inputs, names):
        arrays = {name: tensor.numpy() for name, tensor in inputs.items() if name in known}
        return {
            name: torch.from_numpy(array)
            for name, array in zip(names, session.run(names, arrays), strict=True)
        }

    return run


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    ["rmt", *(pytest.param(name, marks=pytest.mark.slow) for name in [*list(MODELS)[1:], "llama"])],
)
def test_a_stream_through_an_exported_segment_is_that_of_a_session(name, tmp_path):
    model = made(name)
    files = export(model, tmp_path / "model.pt2", LENGTH, BATCH)
    got = of_tokens(streamed(files, torch_runner(files)))
    torch.testing.assert_close(got, by_session(model), **CLOSE)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
@pytest.mark.parametrize("name", [*MODELS, "llama"])
def test_onnxruntime_gives_the_same_stream(name, tmp_path):
    pytest.importorskip("onnxscript")
    model = made(name)
    files = export(model, tmp_path / "model.onnx", LENGTH, BATCH)
    got = of_tokens(streamed(files, onnx_runner(files)))
    torch.testing.assert_close(got, by_session(model), **CLOSE)


def test_what_cannot_be_exported_is_refused_in_a_line(tmp_path):
    with pytest.raises(ConfigError, match=r"out='.*model.bin' is neither .pt2 nor .onnx"):
        export(native(), tmp_path / "model.bin", LENGTH)
    with pytest.raises(ConfigError, match=r"out='.*none/model.pt2': there is no folder '.*none'; make it"):
        export(native(), tmp_path / "none" / "model.pt2", LENGTH)
    with pytest.raises(ConfigError, match="segment_length is missing"):
        export(native(), tmp_path / "model.pt2")

    class Host(torch.nn.Module):
        def initial_state(self, batch):
            return rmt.State(memory=torch.zeros(batch, 1, 2))

        def forward(self, tokens, state):
            return rmt.Output(torch.zeros(int(tokens.sum())), state)

    with pytest.raises(ConfigError, match=r"Host cannot be exported: [^\n]+$"):
        export(Host(), tmp_path / "model.pt2", LENGTH)


def test_files_that_no_export_wrote_are_not_replaced(tmp_path):
    weights = tmp_path / "model.safetensors"
    weights.write_text("weights")
    with pytest.raises(ConfigError, match=r"model.pt2' would replace '.*model.safetensors', which no export"):
        export(native(), tmp_path / "model.pt2", LENGTH)
    (tmp_path / "task.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"task.pt2' would replace '.*task.json', which no export wrote"):
        export(native(), tmp_path / "task.pt2", LENGTH)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.safetensors", "task.json"]
    assert weights.read_text() == "weights"


@pytest.mark.filterwarnings("ignore")
def test_an_export_may_be_made_again_and_leaves_the_model_in_its_mode(tmp_path):
    model = native().train()
    first = export(model, tmp_path / "model.pt2", LENGTH)
    modes = {file.stat().st_mode for file in first}
    assert len(modes) == 1, "who can read the program can read what stands beside it"
    assert export(model, tmp_path / "model.pt2", LENGTH) == first
    assert all(module.training for module in model.modules())
