"""Work in parts: several at once, as far as the time suffices, none twice."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mdpf.training.deadline import Deadline, OutOfTime


@dataclass(frozen=True)
class Part:
    """Something to do.

    Args:
        name: Names it among all parts.
        do: Does it, or goes on with it; may raise ``OutOfTime``.
        done: Whether it is done already.
        needs: The parts that have to be done before.
        seconds: What it may take, if it cannot be interrupted; it is not begun with less time left.
    """

    name: str
    do: Callable[[Deadline], object]
    done: Callable[[], bool]
    needs: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What became of the parts: the seconds of those that this call did, why others are left, and what failed."""

    seconds: dict[str, float] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)


def carry_out(parts: Sequence[Part], *, jobs: int = 1, until: Deadline | None = None) -> Outcome:
    """Do what is not done yet, in order, ``jobs`` parts at a time.

    A part that fails leaves the others alone; those that need it are left. With one job everything happens in the calling thread.
    """
    crew = _Crew(parts, until or Deadline())
    if jobs == 1:
        crew.work()
        return crew.outcome
    workers = [threading.Thread(target=crew.work, name=f"part-{index}", daemon=True) for index in range(jobs)]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    except KeyboardInterrupt:
        # Whoever is at work lays it down after its epoch; a second interruption waits for nobody.
        crew.until.stop()
        for worker in workers:
            worker.join()
        raise
    return crew.outcome


def tell(outcome: Outcome, say: Callable[[str], object]) -> None:
    """Say what was done and what is left; what failed fails the caller, after everything else had its turn."""
    for name, seconds in outcome.seconds.items():
        say(f"Done: {name}, {seconds:.0f} s.")
    for name, reason in outcome.left.items():
        say(f"Left: {name}. {reason}")
    for name, error in outcome.failed.items():
        say(f"Failed: {name}. {type(error).__name__}: {error}")
    for error in outcome.failed.values():
        raise error
    if outcome.left:
        say("The same command goes on with what is left.")
    elif not outcome.seconds:
        say("All results are there already; with another --out they are computed anew.")


class _Crew:
    """The parts, who is at which, and what came of them; shared by threads."""

    def __init__(self, parts: Sequence[Part], until: Deadline):
        self.until = until
        self.outcome = Outcome()
        self._changed = threading.Condition()
        self._finished = {part.name for part in parts if part.done()}
        self._waiting = [part for part in parts if part.name not in self._finished]
        unknown = {name for part in parts for name in part.needs} - {part.name for part in parts}
        if unknown:
            raise ValueError(f"carry_out needs all parts that others need, got none named {', '.join(sorted(unknown))}.")
        self._busy = 0

    def work(self) -> None:
        """Take one part after the other until none is left that could be done."""
        while (part := self._next()) is not None:
            began = time.monotonic()
            try:
                self.until.require(part.seconds, part.name)
                part.do(self.until)
            except OutOfTime as reason:
                self._lay_down(part, left=str(reason))
            except Exception as error:
                self._lay_down(part, failed=error)
            else:
                self._lay_down(part, seconds=time.monotonic() - began)

    def _next(self) -> Part | None:
        """The first part whose needs are done; waits while others may still do them."""
        with self._changed:
            while True:
                self._give_up()
                for part in self._waiting:
                    if self._finished.issuperset(part.needs):
                        self._waiting.remove(part)
                        self._busy += 1
                        return part
                if not self._waiting:
                    return None
                if not self._busy:
                    raise ValueError(f"carry_out needs parts that can be done, got {self._waiting[0].name!r} that needs itself.")
                self._changed.wait()

    def _give_up(self) -> None:
        """Leave parts that need what will not be done."""
        lost = [
            part for part in self._waiting if any(name in self.outcome.left or name in self.outcome.failed for name in part.needs)
        ]
        for part in lost:
            self._waiting.remove(part)
            self.outcome.left[part.name] = f"It needs {', '.join(part.needs)}."
        if lost:
            self._give_up()

    def _lay_down(self, part: Part, *, seconds: float = 0.0, left: str | None = None, failed: Exception | None = None) -> None:
        with self._changed:
            self._busy -= 1
            if failed is not None:
                self.outcome.failed[part.name] = failed
            elif left is not None:
                self.outcome.left[part.name] = left
            else:
                self.outcome.seconds[part.name] = round(seconds, 1)
                self._finished.add(part.name)
            self._changed.notify_all()
