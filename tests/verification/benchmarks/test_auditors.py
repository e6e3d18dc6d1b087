"""What the page on the auditors tells of their benchmark is what the benchmark asks for."""

import re
from pathlib import Path

from verification.benchmarks.auditors import GOALS, STOPS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "audit-a-claim.md"


def test_the_page_names_exactly_the_goals_that_are_missed():
    told = PAGE.read_text(encoding="utf-8").partition("## How good is it?")[2].partition("\n## ")[0]
    bounds = [float(cell.split(" / ")[0]) for cell in re.findall(r"\*\*(.*?)\*\*", told)]
    stops = [int(number.replace(",", "")) for number in re.findall(r"after\s([\d,]*\d)", told)]
    goals = [goal.least for goal in GOALS if goal.quoted != "-"]
    missed = [f"{goal:g}" for goal, bound in zip(goals, bounds, strict=True) if bound < goal]
    # the page has no figure for the specimen of one-sided noise
    asked = [goal for name, goal in STOPS.items() if name != "one_sided_exp"]
    missed += [f"{goal:,}" for goal, stop in zip(asked, stops, strict=True) if stop > goal]
    (sentence,) = re.findall(r"misses two of its own goals: (.*?)\.\s", told, flags=re.DOTALL)
    assert re.findall(r"\d[\d.,]*", sentence) == missed == ["3.1", "1,300"]
