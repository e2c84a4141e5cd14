"""What is chosen on the command line reaches the study, and nothing else does."""

from mdpf import reproduce
from mdpf.recipes.parts import Outcome
from mdpf.reproduce import Choices


def test_a_study_is_handed_the_choices_it_heeds_in_place_of_its_own(tmp_path):
    told = []

    def run(place, **options):
        told.append((place, options))
        return Outcome()

    choices = Choices(3, "cuda", "quick", 2.0, 4, tmp_path / "runs", ("TG-PF",))
    reproduce._study(run, methods=("MDPF",), scope="all")(tmp_path / "maze", choices)
    reproduce._study(run, heeds=("runs",), methods=("MDPF",))(tmp_path / "maze", choices)
    (place, every), (_, few) = told
    assert (place.folder, place.work) == (tmp_path / "maze", tmp_path / "runs" / "maze")
    assert (place.device, place.minutes, place.jobs) == ("cuda", 2.0, 4)
    assert every == {"methods": ("TG-PF",), "runs": 3, "preset": "quick", "scope": "all"}
    assert few == {"methods": ("MDPF",), "runs": 3}


def test_mazes_are_chosen_by_number(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(reproduce.maze_study, "run", lambda place, **options: told.append(options) or Outcome())
    for mazes in (None, ("1", "3")):
        reproduce.FIGURES["maze"].run(tmp_path / "maze", Choices(work=tmp_path, mazes=mazes))
    every, few = told
    assert "scope" not in every
    assert few["scope"].mazes == (1, 3)
    assert "a known maze, got '4'" in str(reproduce.FIGURES["maze"].refusal({"mazes": ("4",)}))
