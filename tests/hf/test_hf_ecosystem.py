"""What users of transformers do with a model, done with one that has memory."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers

import rmt
from tests.hf.tokens import tokenizer
from tests.hf.zoo import answer, main_output, over, plain, remembering, texts

ROOT = Path(__file__).parents[2]


class Documents(torch.utils.data.Dataset):
    """Texts of 10 to 25 tokens whose label is in their first token."""

    def __init__(self, count=24):
        generator = torch.Generator().manual_seed(0)
        self.rows = []
        for _ in range(count):
            length = int(torch.randint(10, 25, (1,), generator=generator))
            ids = torch.randint(5, 30, (length,), generator=generator)
            label = int(torch.randint(2, (1,), generator=generator))
            ids[0], ids[1], ids[-1] = 1, 30 + label, 2
            self.rows.append({"input_ids": ids.tolist(), "attention_mask": [1] * length, "labels": label})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def trainer(model, folder, **settings):
    arguments = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "per_device_eval_batch_size": 5,
        "max_steps": 6,
        "save_steps": 2,
        "logging_steps": 1,
        "learning_rate": 1e-2,
        "use_cpu": True,
        "report_to": [],
        "disable_tqdm": True,
        "seed": 1,
        **settings,
    }
    return transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(**arguments),
        train_dataset=Documents(),
        eval_dataset=Documents(7),
        data_collator=transformers.DataCollatorWithPadding(tokenizer()),
    )


def classifier(**options):
    torch.manual_seed(3)
    return rmt.add_memory(
        plain("bert", "ForSequenceClassification"), memory=2, segment_length=6, **options
    ).float()


def test_a_trainer_fits_evaluates_and_predicts(tmp_path):
    model = classifier()
    before = model.memory.tokens.weight.detach().clone()
    teacher = trainer(model, tmp_path)
    start = teacher.evaluate()["eval_loss"]
    teacher.train()
    assert teacher.evaluate()["eval_loss"] < start
    predicted = teacher.predict(Documents(7))
    assert predicted.predictions.shape == (7, 3)
    assert not torch.equal(model.memory.tokens.weight, before)


def test_a_batch_of_a_trainer_is_its_rows_alone(tmp_path):
    model = classifier().eval()
    together = torch.tensor(trainer(model, tmp_path).predict(Documents(7)).predictions)
    for row, document in enumerate(Documents(7)):
        ids = torch.tensor([document["input_ids"]])
        with torch.no_grad():
            torch.testing.assert_close(model(ids).logits[0], together[row], rtol=1e-4, atol=1e-5)


class Kill(transformers.TrainerCallback):
    """The end of a process at its fifth step."""

    def on_step_end(self, args, state, control, **rest):
        if state.global_step == 5:
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_trainer_goes_on_after_a_kill_as_if_nothing_had_happened(tmp_path):
    whole = classifier()
    trainer(whole, tmp_path / "whole").train()
    pid = os.fork()
    if not pid:
        try:
            killed = trainer(classifier(), tmp_path / "killed")
            killed.add_callback(Kill)
            killed.train()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    resumed = classifier()
    trainer(resumed, tmp_path / "killed").train(resume_from_checkpoint=True)
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], tensor, rtol=0, atol=0, msg=name)


def lora(model, **options):
    import peft

    config = peft.LoraConfig(
        task_type="SEQ_CLS", r=2, target_modules=["query", "value"], init_lora_weights=True, **options
    )
    return peft.get_peft_model(model, config)


def test_an_adapter_has_the_memory_and_alone_gives_the_same_predictions(tmp_path):
    import peft

    base = plain("bert", "ForSequenceClassification").float()
    torch.manual_seed(3)
    model = rmt.add_memory(base, memory=2, segment_length=6)
    initial = model.memory.tokens.weight.detach().clone()
    adapted = lora(model, modules_to_save=["memory", "classifier"])
    trainer(adapted, tmp_path / "run").train()
    adapted.save_pretrained(tmp_path / "adapter")
    size = sum(file.stat().st_size for file in (tmp_path / "adapter").glob("*.safetensors"))
    assert size < 20_000

    inputs = texts("bert", 20, 11)
    with torch.no_grad():
        expected = adapted.eval()(**inputs).logits
    torch.manual_seed(99)  # another initial memory
    fresh = rmt.add_memory(plain("bert", "ForSequenceClassification").float(), memory=2, segment_length=6)
    assert not torch.equal(fresh.memory.tokens.weight, initial)
    loaded = peft.PeftModel.from_pretrained(fresh, tmp_path / "adapter").eval()
    with torch.no_grad():
        torch.testing.assert_close(loaded(**inputs).logits, expected, rtol=1e-5, atol=1e-6)
    learned = dict(adapted.named_parameters())[
        "base_model.model.memory.modules_to_save.default.tokens.weight"
    ]
    assert not torch.equal(learned, initial)


def test_an_adapter_of_a_model_that_was_not_saved_names_no_base_that_lacks_its_memory(tmp_path):
    import peft

    plain("bert", "ForSequenceClassification").save_pretrained(tmp_path / "plain")
    base = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "plain")
    model = rmt.add_memory(base, memory=2, segment_length=6)
    lora(model, modules_to_save=["memory", "classifier"]).save_pretrained(tmp_path / "adapter")
    with pytest.raises(OSError, match="find them in the cached files"):
        peft.AutoPeftModelForSequenceClassification.from_pretrained(
            tmp_path / "adapter", local_files_only=True
        )
    assert base.name_or_path == base.config.name_or_path == str(tmp_path / "plain")


def test_an_adapter_of_a_saved_model_with_memory_loads_as_one(tmp_path):
    import peft

    classifier().save_pretrained(tmp_path / "with-memory")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "with-memory")
    adapted = lora(model, modules_to_save=["memory", "classifier"])
    with torch.no_grad():
        for parameter in adapted.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter) * parameter.requires_grad)
    adapted.save_pretrained(tmp_path / "adapter")
    loaded = peft.AutoPeftModelForSequenceClassification.from_pretrained(tmp_path / "adapter").eval()
    assert type(loaded.base_model.model) is type(model)
    inputs = texts("bert", 20, 11)
    with torch.no_grad():
        torch.testing.assert_close(loaded(**inputs).logits, adapted.eval()(**inputs).logits)


def test_memory_that_an_adapter_forgot_is_not_silent():
    model = lora(
        rmt.add_memory(plain("bert", "ForSequenceClassification"), memory=2, segment_length=6)
    ).train()
    with pytest.warns(UserWarning, match=r"memory is frozen .*modules_to_save=\['memory'\]"):
        model(**texts("bert", 9))


def test_a_pipeline_reads_texts_beyond_the_limit(tmp_path):
    base = plain("bert", "ForSequenceClassification", vocab_size=40, max_position_embeddings=32).float()
    model = rmt.add_memory(base, memory=4)
    words = tokenizer(limit=32)
    model.save_pretrained(tmp_path, tokenizer=words)
    classify = transformers.pipeline("text-classification", model=str(tmp_path), device="cpu")
    assert type(classify.model) is type(model)
    long = "bad " + "the film was very dull and " * 30
    results = classify([long, "good end", long + "good"], batch_size=3)
    alone = classify(long)
    assert results[0]["score"] == pytest.approx(alone[0]["score"], abs=1e-5)
    other = classify("good " + "the film was very dull and " * 30)
    assert other[0]["score"] != alone[0]["score"]  # the first word counts


@pytest.mark.covering
@over(heads=("ForSequenceClassification", "ForCausalLM"))
def test_gradient_checkpointing_gives_the_same_gradient(name, head, attention):
    if name == "mpnet":
        pytest.skip("MPNet has no gradient checkpointing; add_memory(checkpoint=True) works for it")
    gradients = []
    for enable in (False, True):
        model = remembering(name, head, attention).train()
        if enable:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        main_output(answer(model, texts(name, 14, 9))).pow(2).sum().backward()
        gradients.append(
            {key: parameter.grad for key, parameter in model.named_parameters() if parameter.grad is not None}
        )
    assert gradients[0]["memory.tokens.weight"].any()
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)


@pytest.mark.covering
@over(heads=("Model",))
def test_half_precision_reads_and_learns(name, head, attention):
    model = remembering(name, head, attention).to(torch.bfloat16)
    output = main_output(answer(model, texts(name, 14, 9)))
    assert output.dtype == torch.bfloat16
    output.float().pow(2).sum().backward()
    assert torch.isfinite(model.memory.tokens.weight.grad).all()
    exact = main_output(answer(remembering(name, head, attention).float(), texts(name, 14, 9)))
    assert (output.float() - exact).abs().mean() < 0.1


def test_autocast_carries_memory_in_any_precision():
    model = remembering("llama", "ForCausalLM").float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(**texts("llama", 14, 9), labels=texts("llama", 14, 9)["input_ids"]).loss
    loss.backward()
    assert torch.isfinite(model.memory.tokens.weight.grad).all()


@pytest.mark.parametrize(
    ("name", "head"),
    [("bert", "ForSequenceClassification"), ("gpt2", "ForCausalLM"), ("t5", "ForConditionalGeneration")],
)
def test_a_device_map_places_the_memory(name, head, tmp_path):
    model = remembering(name, head)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path, device_map={"": "cpu"}, dtype=torch.float64).eval()
    assert loaded.memory.tokens.weight.device == torch.device("cpu")
    inputs = texts(name, 14, 9)
    torch.testing.assert_close(
        main_output(answer(loaded, inputs)), main_output(answer(model, inputs)), rtol=1e-5, atol=1e-5
    )
    whole = rmt.add_memory(plain(name, head), memory=2, segment_length=5, kind="tokens")
    from accelerate import dispatch_model

    whole.load_state_dict(model.state_dict())
    dispatched = dispatch_model(whole, {"": "cpu"}, force_hooks=True)
    torch.testing.assert_close(
        main_output(answer(dispatched, inputs)), main_output(answer(model, inputs)), rtol=1e-5, atol=1e-5
    )


def test_a_loaded_class_can_be_named_and_pickled():
    import pickle

    from rmt.hf import models

    model = remembering("bert", "ForSequenceClassification")
    assert models.RMTBertForSequenceClassification is type(model)
    again = pickle.loads(pickle.dumps(model))
    assert torch.equal(again(**texts("bert", 9)).logits, model(**texts("bert", 9)).logits)
    with pytest.raises(AttributeError, match="no attribute 'RMTNothing'"):
        models.RMTNothing  # noqa: B018


@pytest.mark.slow
def test_the_plain_class_does_not_load_a_model_with_memory_silently(tmp_path):
    remembering("bert", "ForSequenceClassification").save_pretrained(tmp_path)
    from rmt.hf import models

    assert transformers.AutoConfig.from_pretrained(tmp_path).model_type == "rmt_bert"
    loaded = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert type(loaded) is models.RMTBertForSequenceClassification
    script = f"import transformers; transformers.AutoModel.from_pretrained({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode != 0
    assert "rmt_bert" in done.stderr


def test_the_plain_class_by_its_name_warns_of_the_type_and_of_the_memory_that_it_leaves_out(tmp_path):
    remembering("bert", "ForSequenceClassification").save_pretrained(tmp_path)
    lines, listener = [], logging.Handler()
    listener.emit = lambda record: lines.append(record.getMessage())
    logger, level = logging.getLogger("transformers"), logging.getLogger("transformers").level
    logger.addHandler(listener)
    logger.setLevel(logging.WARNING)
    try:
        transformers.BertForSequenceClassification.from_pretrained(tmp_path)
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)
    assert any("`rmt_bert` to instantiate a model of type `bert`" in line for line in lines)
    assert any("memory.tokens.weight" in line and "UNEXPECTED" in line for line in lines)


def test_weights_of_releases_in_which_memory_was_an_embedding_are_loaded_and_saved_under_the_new_name(
    tmp_path,
):
    from safetensors.torch import load_file

    model = remembering("bert", "ForSequenceClassification")
    weights = model.state_dict()
    weights["memory.weight"] = weights.pop("memory.tokens.weight") + 1
    model.load_state_dict(weights)
    assert torch.equal(model.memory.tokens.weight, weights["memory.weight"])

    written = ROOT / "tests" / "release" / "17fc2a8" / "wrapped-bert"
    loaded = type(model).from_pretrained(written)
    earlier = load_file(written / "model.safetensors")
    assert torch.equal(loaded.memory.tokens.weight, earlier["memory.weight"])
    loaded.save_pretrained(tmp_path)
    again = load_file(tmp_path / "model.safetensors")
    assert again.keys() == earlier.keys() - {"memory.weight"} | {"memory.tokens.weight"}
