"""Capabilities of agents on the loop, switched on one by one.

A capability has a name, tools, native tools and a paragraph for the prompt. To write one of your
own, define a `Capability` in a module of yours and name it as `module:NAME` in an experiment.
"""

from agent.capabilities.base import Agent, Capability, Native
from agent.errors import Retryable, ToolFailed
from agent.tools.tool import Arguments, Refused, Tool, ToolResult, ToolSettings, Value
