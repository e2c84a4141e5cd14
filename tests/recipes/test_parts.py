"""Parts are done once, in an order that respects their needs, as far as the time suffices."""

import threading

import pytest

from mdpf.recipes.parts import Part, carry_out
from mdpf.training.deadline import Deadline, OutOfTime


class Log:
    """Parts that note down when they are done."""

    def __init__(self):
        self.done = []

    def part(self, name, *needs, action=None, done=False, seconds=0.0):
        def do(until):
            if action is not None:
                action(until)
            self.done.append(name)

        return Part(name, do, lambda: done, needs, seconds)


@pytest.fixture
def log():
    return Log()


@pytest.mark.parametrize("jobs", [1, 3])
def test_needs_come_first_and_what_is_done_is_not_done_again(log, jobs):
    parts = [log.part("c", "b"), log.part("b", "a"), log.part("a"), log.part("old", done=True), log.part("d", "old")]
    outcome = carry_out(parts, jobs=jobs)
    assert sorted(log.done) == ["a", "b", "c", "d"]
    assert log.done.index("a") < log.done.index("b") < log.done.index("c")
    assert outcome.seconds.keys() == {"a", "b", "c", "d"}
    assert not outcome.left
    assert not outcome.failed


@pytest.mark.parametrize("jobs", [1, 3])
def test_failure_leaves_the_others_alone(log, jobs):
    def fail(until):
        raise RuntimeError("broken")

    parts = [log.part("a", action=fail), log.part("b", "a"), log.part("c", "b"), log.part("d")]
    outcome = carry_out(parts, jobs=jobs)
    assert log.done == ["d"]
    assert str(outcome.failed["a"]) == "broken"
    assert outcome.left == {"b": "It needs a.", "c": "It needs b."}


@pytest.mark.parametrize("jobs", [1, 2])
def test_time_that_is_over_is_told(log, jobs):
    def run_out(until):
        raise OutOfTime("go on after epoch 3")

    parts = [log.part("a", action=run_out), log.part("long", seconds=1000.0), log.part("short"), log.part("b", "a")]
    outcome = carry_out(parts, jobs=jobs, until=Deadline(100.0))
    assert log.done == ["short"]
    assert outcome.left == {"a": "go on after epoch 3", "long": "No time is left for long.", "b": "It needs a."}


def test_jobs_are_at_work_at_the_same_time(log):
    """Each of two parts waits for the other: one after the other they would never end."""
    meeting = threading.Barrier(2, timeout=30)

    def meet(until):
        meeting.wait()

    outcome = carry_out([log.part("a", action=meet), log.part("b", action=meet)], jobs=2)
    assert outcome.seconds.keys() == {"a", "b"}


def test_parts_that_cannot_be_done_are_refused(log):
    with pytest.raises(ValueError, match="needs all parts that others need, got none named nobody"):
        carry_out([log.part("a", "nobody")])
    with pytest.raises(ValueError, match="'a' that needs itself"):
        carry_out([log.part("a", "b"), log.part("b", "a")])


def test_stopped_deadline_is_over():
    until = Deadline()
    until.require(1e9, "anything")
    until.stop()
    with pytest.raises(OutOfTime, match="No time is left for this"):
        until.require(0.0, "this")
