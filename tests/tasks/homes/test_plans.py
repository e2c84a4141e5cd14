"""Plans: what is read, in which units, and what is said about what cannot be used."""

import json
import lzma

import pytest

from mdpf.tasks.homes import plans


def write(folder, *entries, name="plans.jsonl"):
    text = "\n".join(entry if isinstance(entry, str) else json.dumps(entry) for entry in entries)
    (folder / name).write_bytes(lzma.compress(text.encode()) if name.endswith(".xz") else text.encode())
    return folder


def test_the_package_carries_its_homes_split_by_home():
    found = plans.read()
    names = {split: {plan.id for plan in found if plan.split == split} for split in ("train", "validation", "evaluation")}
    assert {split: len(ids) for split, ids in names.items()} == {"train": 493, "validation": 71, "evaluation": 141}
    assert len(set.union(*names.values())) == 705
    assert [plan.id for plan in plans.read(split="test")] == [plan.id for plan in found if plan.split == "evaluation"]


def test_a_plan_is_in_metres_with_a_margin(drawing):
    plan = plans.plan_of(drawing)
    assert plan.size == pytest.approx((5.0, 4.0))
    assert plan.walls[0] == pytest.approx([0.5, 0.5, 4.5, 0.5])
    assert plan.doors[0].ends == pytest.approx((2.5, 1.5, 2.5, 2.3))
    assert plan.doors[0].type == 1
    assert plan.labels[2] == ("bathtub", pytest.approx((3.5, 0.55, 4.45, 1.25)))


@pytest.mark.parametrize("name", ["plans.jsonl", "plans.jsonl.xz"])
def test_a_folder_or_a_file_of_ones_own_is_read(tmp_path, drawing, name):
    folder = write(tmp_path, drawing, drawing | {"id": "left out", "split": "unused"}, name=name)
    for path in (folder, folder / name):
        assert [plan.id for plan in plans.read(path)] == ["by-hand"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"walls": [[0, 0, 1, 0]]}, "at least three walls, got 1"),
        ({"walls": "none"}, "a list of walls, got none"),
        ({"walls": [[0, 0, 1]] * 3}, "walls of 4 numbers each"),
        ({"walls": [[0, 0, 1, float("nan")]] * 3}, "finite numbers in walls, got nan"),
        ({"m_per_unit": 0}, "metres of at most 40 m"),
        ({"m_per_unit": 1.0}, "The scale is of another map"),
        ({"m_per_unit": 0.05}, "swing doors of 0.4 to 1.6 m, got a median of 3.75 m"),
        ({"m_per_unit": "1 cm"}, "finite numbers in m_per_unit, got 1 cm"),
        ({"labels": [["sofa", 1, 2, 3]]}, "labels of a name and four numbers"),
        ({"doors": None}, "a list of doors"),
    ],
)
def test_a_wrong_plan_is_refused_by_name(drawing, change, message):
    with pytest.raises(ValueError, match=f"Home 'by-hand' needs .*{message}"):
        plans.plan_of(drawing | change)


def test_a_plan_without_a_name_is_refused(drawing):
    del drawing["id"]
    with pytest.raises(ValueError, match="Give every home a name of its own"):
        plans.plan_of(drawing)


def test_a_file_that_is_no_file_of_plans_is_refused(tmp_path, drawing):
    with pytest.raises(FileNotFoundError, match="needs a folder with plans.jsonl.xz"):
        plans.read(tmp_path)
    with pytest.raises(ValueError, match="on line 2"):
        plans.read(write(tmp_path, drawing, "{"))
    with pytest.raises(ValueError, match="of the split test, got none"):
        plans.read(write(tmp_path, drawing), split="test")
    with pytest.raises(ValueError, match="got 'tst'"):
        plans.read(tmp_path, split="tst")
    (tmp_path / "plans.jsonl.xz").write_bytes(b"not packed")
    with pytest.raises(ValueError, match="Copy or write it again"):
        plans.read(tmp_path)
