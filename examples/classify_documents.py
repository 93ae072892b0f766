"""Classify documents of any length: a pretrained encoder with memory, trained and used as any other model.

    python examples/classify_documents.py [BACKBONE] [STEPS]

The class of each document is said in its first sentence and nowhere else, and the classifier looks at the
last segment: what it needs comes through memory.
"""

import random
import sys
import tempfile

import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    pipeline,
    set_seed,
)

import rmt

BACKBONE = sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2"
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 100
WORDS = ["the", "film", "was", "shown", "in", "the", "evening", "and", "people", "went", "home", "late"]


def document(label: int, draw: random.Random, length: int = 40) -> str:
    """A first sentence that says the class, and much that does not."""
    return f"{('bad', 'good')[label]} film . " + " ".join(draw.choices(WORDS, k=length))


def examples(tokenizer, count: int, seed: int) -> list[dict]:
    draw = random.Random(seed)
    labels = [draw.randrange(2) for _ in range(count)]
    return [{**tokenizer(document(label, draw)), "labels": label} for label in labels]


def main() -> None:
    set_seed(0)  # head and memory are drawn here, before the Trainer sets its own
    tokenizer = AutoTokenizer.from_pretrained(BACKBONE)
    base = AutoModelForSequenceClassification.from_pretrained(
        BACKBONE, id2label={0: "bad", 1: "good"}, label2id={"bad": 0, "good": 1}, dtype=torch.float32
    )
    model = rmt.add_memory(base, memory=4, segment_length=20)  # None would be the most that fits
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=tempfile.mkdtemp(),
            max_steps=STEPS,
            per_device_train_batch_size=8,
            learning_rate=2e-4,
            warmup_steps=STEPS // 10,  # without it, memory often stays unused
            logging_steps=25,
            save_strategy="no",
            report_to=[],
            dataloader_pin_memory=False,
        ),
        train_dataset=examples(tokenizer, 8 * STEPS, seed=0),
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=lambda found: {"accuracy": (found.predictions.argmax(-1) == found.label_ids).mean()},
    )
    trainer.train()
    found = trainer.evaluate(examples(tokenizer, 100, seed=1))
    print(f"accuracy on new documents: {found['eval_accuracy']:.2f} (chance 0.50)")
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer)
    print(classify(document(1, random.Random(2), length=2000)))  # far beyond the backbone's 512 tokens


if __name__ == "__main__":
    main()
