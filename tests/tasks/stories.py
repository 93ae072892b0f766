"""A folder with questions and novels in the format of bAbI and Project Gutenberg, made for tests."""

import random
from pathlib import Path

NAMES, PLACES = ["Mary", "John", "Sandra", "Daniel"], ["garden", "office", "kitchen", "hallway"]
NOVELS = {"Whale_1.txt": "Call me a whale, of the sea .", "Middlemarch_2.txt": "Miss Brooke had that beauty"}


def write_data(folder: Path, stories: int = 20, words: int = 400) -> Path:
    """A folder `data` with babi/qa1 and two novels; every novel has words of its own."""
    chance = random.Random(0)
    (folder / "data" / "babi").mkdir(parents=True)
    (folder / "data" / "books").mkdir()
    for split in ("train", "test"):
        text = "".join(story(chance) for _ in range(stories))
        (folder / "data" / "babi" / f"qa1_single-supporting-fact_{split}.txt").write_text(text)
    for name, line in NOVELS.items():
        vocabulary = line.split()
        text = "\n".join(" ".join(chance.choices(vocabulary, k=10)) for _ in range(words // 10))
        (folder / "data" / "books" / name).write_text(text + "\n")
    return folder / "data"


def story(chance: random.Random) -> str:
    """Two facts, a question, two facts, a question."""
    lines, where = [], {}
    for _ in range(2):
        for name in chance.sample(NAMES, 2):
            where[name] = (chance.choice(PLACES), len(lines) + 1)
            lines.append(f"{name} went to the {where[name][0]}.")
        asked = chance.choice(sorted(where))
        lines.append(f"Where is {asked}? \t{where[asked][0]}\t{where[asked][1]}")
    return "".join(f"{number} {line}\n" for number, line in enumerate(lines, 1))
