"""Programs over tools: the model writes Python that calls its tools."""

from agent.capabilities.base import Agent, Capability, Native
from agent.ptc.tool import NAME, ProgramTool, RunPtc
from agent.session.session import Session
from agent.tools.results import ToolResult


async def run_ptc(agent: Agent, session: Session, asked: RunPtc) -> ToolResult:
    """Run a program of an agent, as `ProgramTool.run` does."""
    return await _programs(agent).run(asked, session)


def _prompt(agent: Agent) -> str:
    return _programs(agent).prompt


def _programs(agent: Agent) -> ProgramTool:
    if "ptc" not in agent.memory:
        agent.memory["ptc"] = ProgramTool(agent.toolbox, agent.helpers(), agent.crew.programs)
    programs: ProgramTool = agent.memory["ptc"]
    return programs


PTC = Capability(
    "ptc",
    native=(Native(NAME, RunPtc, run_ptc, changes_files=True, value=None),),
    prompt=_prompt,
)
