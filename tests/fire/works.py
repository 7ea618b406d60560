"""What the commands of a round do: run an experiment, fork an attempt, talk, or do a job."""

import subprocess
from typing import TYPE_CHECKING

from flows.jobs.request import FORGE, TOKEN
from flows.storage.images import CACHE_VARIABLE
from tests.flows.jobs.conftest import FILES, NAME, REPAIR
from tests.servers.forge import Forge
from tests.servers.openai_server import Script, by_turn, command
from tests.servers.simulated_server import Simulation

if TYPE_CHECKING:
    from tests.fire.ground import Ground

_AT_BUDGET = "stopped by a budget"


class Experiment:
    """Run the experiment of the round."""

    arms: tuple[str, ...] = ()
    """The only arms that the work has; () for any."""

    def create_script(self) -> Script:
        """Return the answers of the model."""
        return Simulation()

    def prepare(self, ground: "Ground") -> None:
        """Do what comes before the first fault."""

    def list_arguments(self, ground: "Ground") -> list[str]:
        """Return the command line of the next command."""
        return ["run", str(ground.file)]

    def has_finished(self, code: int, output: str) -> bool:
        """Return True if a command that ended so has finished the work."""
        return code == 0 or _AT_BUDGET in output

    def list_problems(self, ground: "Ground") -> list[str]:
        """Return what is wrong with the finished work, beyond its calls and results."""
        return []


class Fork(Experiment):
    """Fork an attempt in its middle."""

    arms = ("mini",)

    def prepare(self, ground: "Ground") -> None:
        """Run the experiment that has the attempt."""
        run = [*ground.program, "run", str(ground.file)]
        subprocess.run(run, env=ground.environment, capture_output=True, check=True)
        [self._attempt] = ground.open_journal().find("")

    def list_arguments(self, ground: "Ground") -> list[str]:
        """The same command continues a fork that did not finish."""
        return ["fork", self._attempt.attempt_id, "--at", "3"]


class Chat(Experiment):
    """Talk about an instance, and continue the chat until the agent ends it."""

    arms = ("loop",)

    def list_arguments(self, ground: "Ground") -> list[str]:
        """Continue the chat, once it is in the journal."""
        for attempt in ground.open_journal().find(""):
            return ["chat", attempt.attempt_id]
        instance = ground.declared["select"]["ids"][0]
        return ["chat", "--instance", instance, "-x", str(ground.file), "-e", "host"]

    def has_finished(self, code: int, output: str) -> bool:
        """A chat also ends with its input, and is then continued."""
        return "[ended]" in output


class Job(Experiment):
    """Repair a repository, and open a pull request at a forge."""

    arms = ("mini",)

    def create_script(self) -> Script:
        """Look around, repair, and submit."""
        end = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"
        return by_turn([command(turn) for turn in (*["cat calc.py"] * 20, REPAIR, end)])

    def prepare(self, ground: "Ground") -> None:
        """Start the forge."""
        self._forge = ground.enter(Forge(ground.folder / "forge"))
        self._forge.add(NAME, FILES)
        ground.environment[CACHE_VARIABLE] = str(ground.folder / "cache")
        ground.environment |= {FORGE: self._forge.url, TOKEN: self._forge.token}

    def list_arguments(self, ground: "Ground") -> list[str]:
        """The same command continues the job."""
        where = ("-x", str(ground.file), "--pr", "-e", "host")
        return ["job", "run", NAME, "Add, don't subtract.", *where]

    def list_problems(self, ground: "Ground") -> list[str]:
        """Expect one pull request with one commit, and a job that says so."""
        rows = ground.open_lake().all_shared("jobs")
        found = [(row["state"], row["verdict"], row["pull_request"]) for row in rows]
        pulls = self._forge.pulls[NAME]
        if found != [("done", "nothing_broke", pull["html_url"]) for pull in pulls[:1]]:
            return [f"jobs {found} with {len(pulls)} pull requests"]
        commits = self._forge.git(NAME, "rev-list", "--count", f"main..{pulls[0]['head']['ref']}")
        return (
            [] if (len(pulls), commits) == (1, "1") else [f"{len(pulls)} pulls, {commits} commits"]
        )


WORKS = {"run": Experiment, "fork": Fork, "chat": Chat, "job": Job}
