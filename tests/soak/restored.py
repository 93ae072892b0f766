"""The workspace of a share of cases, made whole again behind each of them."""

import shutil
from pathlib import Path

WHOLE = Path("..", "whole")


def restore(*changed: str | Path) -> None:
    """The workspace as it was: what is new goes, what was changed comes back."""
    names = {path.name for path in WHOLE.iterdir()}
    for path in Path().iterdir():
        if path.name not in names:
            remove(path)
    for name in {Path(path).parts[0] for path in changed if Path(path).parts} & names:
        remove(Path(name))
        copy = shutil.copytree if (WHOLE / name).is_dir() else shutil.copy2
        copy(WHOLE / name, name)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
