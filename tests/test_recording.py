"""The host stays close to the device it sends work to."""

import pytest
import torch

from mdpf import recording


class Event:
    """Notes in ``log`` when it is recorded and waited for."""

    log: list[str]

    def __init__(self, blocking):
        assert blocking
        self.number = sum(entry.startswith("sent") for entry in self.log)

    def record(self, stream):
        self.log.append(f"sent {self.number} to {stream}")

    def synchronize(self):
        self.log.append(f"waited for {self.number}")


def test_the_host_waits_for_what_it_sent_some_calls_ago(monkeypatch):
    monkeypatch.setattr(Event, "log", [], raising=False)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"a stream of {device}")
    pace = recording.Pace(torch.device("cuda"))
    for _ in range(recording.AHEAD):
        pace.keep()
    assert not [entry for entry in Event.log if entry.startswith("waited")]
    pace.keep()
    pace.keep()
    last = recording.AHEAD + 1
    assert Event.log[-3:] == ["waited for 0", f"sent {last} to a stream of cuda", "waited for 1"]


def test_on_a_processor_there_is_nothing_to_wait_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", None)
    for _ in range(20):
        recording.Pace(torch.device("cpu")).keep()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_work_is_done_when_the_host_is_past_it():
    device = torch.device("cuda")
    pace, total = recording.Pace(device), torch.zeros((), device=device)
    for _ in range(10 * recording.AHEAD):
        total += 1
        pace.keep()
    assert total.item() == 10 * recording.AHEAD
