"""What the measuring commands show while they are at it, and what they say when they are stopped."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
from rich.text import Text

from ropewalk.extend.memory import Memory
from ropewalk.extend.progress import Step
from ropewalk.extend.run import Watch
from ropewalk.extend.world import ALONE, World


class _TimeLeft(ProgressColumn):
    """The estimate of the last step, which runs down until the next."""

    def render(self, task: Task) -> Text:
        step: Step | None = task.fields["step"]
        if step is None or step.seconds_left is None:
            return Text("")
        left = max(0, round(step.seconds_left - (task.get_time() - task.fields["at"])))
        return Text(f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02} left")


@contextmanager
def watched(world: World = ALONE) -> Iterator[Watch]:
    """A bar on stderr: the method, the document, tokens a second, the time left; silent where that is no terminal.

    Of several ranks the first shows it. That memory will be short is said in any case.
    """
    console = Console(file=sys.stderr)  # the stream itself: loading holds `sys.stderr` back
    columns = TextColumn("{task.description}"), BarColumn(20), TaskProgressColumn(), _TimeLeft()
    hidden = not console.is_terminal or not world.is_first
    with Progress(*columns, console=console, disable=hidden, redirect_stderr=False) as bar:
        task = bar.add_task("", total=None, step=None, at=0.0)

        def told(step: Step) -> None:
            bar.update(task, total=1.0, completed=step.share, description=described(step), step=step, at=bar.get_time())

        def memory(need: Memory) -> None:
            if need.is_short or not hidden:
                bar.console.print(f"ropewalk: {need.said}", highlight=False, markup=False, soft_wrap=True)

        yield Watch(stage=lambda text: bar.update(task, description=text, step=None), progress=told, memory=memory)


def described(step: Step) -> str:
    """A step in words."""
    speed = step.tokens_per_second
    return f"{step.method}, {step.part}" + (f", {speed:,.0f} tokens/s" if speed else "")


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Say after Ctrl-C, where `folder` is there, that what it keeps can be gone on with."""
    try:
        yield
    except KeyboardInterrupt:
        if folder.exists():
            typer.echo(f"what is finished is kept in {folder}; the same command with --resume goes on", err=True)
        raise
