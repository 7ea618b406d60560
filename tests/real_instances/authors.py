"""A model in every role of the durable arm that knows a row's patch, and uses it at a given try."""

from dataclasses import dataclass
from itertools import pairwise

from agent.models.patches import parse
from agent.models.protocol import ModelRequest
from agent.models.simulated.reference import revert_command
from eval.types import Instance
from tests.agent.arms.durable.conftest import RoleModel, Said, Script, answer, plan, report, review


@dataclass(frozen=True)
class NewTest:
    """A test of the behaviour that a row's task describes, which fails at the base commit."""

    path: str
    content: str
    related: str
    """A short test file of the same package that exists already."""
    mistakes: tuple[tuple[str, str], tuple[str, str]]
    """Replacements in the row's patch that make it wrong, each in its own way."""


NEW_TESTS = {
    "pallets__flask-5014": NewTest(
        "tests/test_nameless_blueprint.py",
        """\
import pytest
from flask import Blueprint


def test_a_blueprint_has_a_name():
    with pytest.raises(ValueError):
        Blueprint("", "pages")
    assert Blueprint("pages", "pages").name == "pages"
""",
        "tests/test_blueprints.py",
        (("if not name:", "if name is None:"), ("if not name:", "if name == '.':")),
    ),
    "sympy__sympy-24909": NewTest(
        "sympy/physics/units/tests/test_products_of_prefixes.py",
        """\
from sympy.core.singleton import S
from sympy.physics.units import W, kilo, milli


def test_a_unit_stays():
    assert milli * W != 1
    assert milli * W == W / 1000


def test_prefixes_cancel():
    assert milli * kilo is S.One
""",
        "sympy/physics/units/tests/test_prefixes.py",
        (("return S.One", "return S.Zero"), ("if isinstance(other,", "if not isinstance(other,")),
    ),
    "django__django-16595": NewTest(
        "tests/migrations/test_repeated_alterations.py",
        """\
from django.db import migrations, models
from django.db.migrations.optimizer import MigrationOptimizer
from django.test import SimpleTestCase


class RepeatedAlterations(SimpleTestCase):
    def test_the_last_is_enough(self):
        operations = [
            migrations.AlterField("book", "title", models.CharField(max_length=length))
            for length in (64, 128, 256)
        ]
        self.assertEqual(MigrationOptimizer().optimize(operations, "books"), operations[-1:])
""",
        "tests/migrations/test_optimizer.py",
        (("(AlterField, RemoveField)", "RemoveField"), ("(AlterField,", "(AddField,")),
    ),
}


def author(instance: Instance, *, right_at: int) -> RoleModel:
    """A model whose change is right at that try, from 1 on, and wrong in two ways before."""
    new = NEW_TESTS[instance.instance_id]
    tries = _tries(instance.patch, new, right_at)
    lean: list[Said] = [
        [("write", {"path": new.path, "content": new.content})],
        [("run_tests", {"paths": [new.path]})],
        [("apply_patch", {"patch": tries[0]})],
        *_ending(new),
    ]
    for before, after in pairwise(tries):
        undo = ("run_command", {"command": revert_command(before)})
        lean += [[undo], [("apply_patch", {"patch": after})], *_ending(new)]
    targets = [file.name for file in parse(instance.patch)]
    step = {"title": "do it", "instructions": "as the task says", "targets": targets}

    def candidate(number: int, request: ModelRequest) -> Said:
        patch = tries[min(request.facts["candidate"], len(tries) - 1)]
        return [("apply_patch", {"patch": patch})] if number == 0 else report()

    def planner(number: int, request: ModelRequest) -> Said:
        if request.facts["completed_steps"]:
            return plan(number, request)
        return answer(next_step=step, backlog=[], done=False)

    scripts: dict[str, Script] = {
        "solver": lean,
        "adjudicator": [answer(reasons=["the task says so"], cause="code")],
        "contract": [answer(kind="bugfix", goal="as the task says", acceptance_criteria=["it is"])],
        "brief": [
            answer(
                summary="as the task says",
                anchor_path=new.path,
                anchor_idea="what the task describes",
                round_trip=False,
                regression_tests=[new.related],
                backlog=["do it"],
            )
        ],
        "anchor": [
            [("write_new", {"path": new.path, "content": new.content})],
            answer(reason="it fails", path=new.path, regression_tests=[], reproduced=True),
        ],
        "planner": planner,
        "implementer": candidate,
        "step_reviewer": [review()],
        "final_reviewer": [review()],
    }
    return RoleModel(scripts)


def _ending(new: NewTest) -> list[Said]:
    work = answer(
        summary="did it",
        test=new.path,
        related_tests=[new.related],
        status="done",
        confidence="high",
    )
    return [[("run_tests", {"paths": [new.path]})], work]


def _tries(patch: str, new: NewTest, right_at: int) -> list[str]:
    """Wrong patches, each in its own way, and the right one."""
    wrong = []
    for old, other in new.mistakes:
        lines = [
            line.replace(old, other) if line.startswith("+") else line for line in patch.split("\n")
        ]
        wrong.append("\n".join(lines))
    return [*wrong[: right_at - 1], patch]
