"""The tables of the lake, declared once: name, type, unit, meaning.

The Arrow schema, the writer and the documentation are all generated from this module. Each
table is a folder of Parquet files, `<table>/experiment=<name>/arm=<name>/<unit>.parquet`, one
immutable file per finished unit of work. `experiment` and `arm` are columns too, taken from the
path. Tables that experiments share have no such folders. Times are UTC, text is UTF-8, and
`null` means unknown, never zero.
"""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """One column of one table."""

    name: str
    type: pa.DataType
    meaning: str
    unit: str = ""
    required: bool = True
    """False if `null` has a meaning of its own, which `meaning` states."""
    exact_copy: str = ""
    """The column with the whole value as a JSON string, where UTF-8 cannot hold it."""


@dataclass(frozen=True)
class LakeTable:
    """One table: the grain of a row, and its columns except the two of the path."""

    name: str
    grain: str
    columns: tuple[Column, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema of one file."""
        return pa.schema([pa.field(c.name, c.type, nullable=not c.required) for c in self.columns])

    @cached_property
    def exact_copies(self) -> dict[str, str]:
        """Columns that are kept byte by byte, each with the one of its exact copy."""
        return {c.name: c.exact_copy for c in self.columns if c.exact_copy}


PARTITION = ("experiment", "arm")
"""The columns that every table takes from its path."""

TEXT, INT, FLOAT, BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()
TIME = pa.timestamp("us", tz="UTC")
TEXTS = pa.list_(pa.string())
PAIRS = pa.list_(
    pa.struct(pa.field(arm, TEXT, nullable=False) for arm in ("baseline", "candidate"))
)

_RESOURCES = (
    Column("memory_gb", FLOAT, "memory limit of each container", "GiB", False),
    Column("cpus", FLOAT, "processors of each container, as a share of time", "", False),
    Column("pids", INT, "limit of processes in each container", "processes", False),
    Column("disk_gb", FLOAT, "limit of the files that a container writes", "GiB", False),
)
"""Null on a host, for imports and in older files."""

_CELL = (
    Column("attempt_id", TEXT, "identifies the attempt; the same in every table"),
    Column("instance_id", TEXT, "SWE-bench instance"),
    Column("repeat", INT, "0 for the first attempt at a cell, counting up over repeats"),
)

_USAGE = tuple(
    Column(name, INT, f"{meaning}; null if a call's are unknown", "tokens", False)
    for name, meaning in (
        ("input_tokens", "prompt tokens, cached ones included"),
        ("cache_read_tokens", "the part of the prompt read from a cache"),
        ("cache_write_tokens", "the part of the prompt written to a cache"),
        ("output_tokens", "generated tokens, reasoning included"),
        ("reasoning_tokens", "the part of the output that was reasoning"),
    )
)

ATTEMPTS = LakeTable(
    "attempts",
    "one try at a cell (experiment × arm × instance × repeat)",
    (
        *_CELL,
        Column("repo", TEXT, "repository of the instance; empty if unknown"),
        Column(
            "difficulty",
            TEXT,
            "difficulty of the instance, as its dataset or an import names it; null if unknown",
            required=False,
        ),
        Column(
            "instance_created_at",
            TEXT,
            "when the instance was written, as its dataset says (`created_at`); null if unknown",
            required=False,
        ),
        Column(
            "agent",
            TEXT,
            "kind of arm: mini, durable, command, gold, null or imported; or the harness of an "
            "import",
        ),
        Column("model", TEXT, "model string; `none` for arms without a model, or unknown"),
        Column(
            "provider",
            TEXT,
            "litellm, scripted, recorded, simulated or none; unknown for imported trajectories",
        ),
        Column("environment", TEXT, "docker, host, or imported if it ran in another system"),
        Column(
            "outcome",
            TEXT,
            "submitted, gave_up, out_of_steps (calls or rounds), out_of_budget (its own limit in "
            "dollars) or out_of_time, in the same words for every arm, or unknown; infrastructure, "
            "refused (the image failed its preflight), budget_stop, interrupted and waiting (for "
            "a person) are not final: a later run resumes the attempt",
        ),
        Column("detail", TEXT, "why the attempt ended, in the arm's words, or the error's text"),
        Column(
            "workflow_status",
            TEXT,
            "durable arm: completed, unproven, gates_closed, blocked, out_of_turns, out_of_time, "
            "out_of_limits or dismissed; null for other arms",
            required=False,
        ),
        Column(
            "agent_verdict",
            TEXT,
            "judgement of the durable or staged arm itself: accepted, rejected or unverified",
            required=False,
        ),
        Column(
            "reproduced",
            BOOL,
            "durable arm: whether a test was seen to fail before the change",
            required=False,
        ),
        Column("prediction_emitted", BOOL, "durable arm: whether it left a patch", required=False),
        Column(
            "report",
            TEXT,
            "durable arm, JSON: plan, candidates, evidence, usage by role",
            required=False,
        ),
        Column("started_at", TIME, "start of the first run", required=False),
        Column(
            "duration_s",
            FLOAT,
            "time in which a step was running, over all runs, and that of reused steps in their "
            "own attempt; null where an import does not say",
            "s",
            False,
        ),
        Column(
            "order_in_instance",
            INT,
            "position of the arm in the order in which the arms began the instance and repeat, "
            "from 0; null for imports and in older files",
            required=False,
        ),
        Column(
            "model_calls",
            INT,
            "answered model calls; null where an import does not say",
            "calls",
            False,
        ),
        Column(
            "unpriced_calls",
            INT,
            "answered model calls of unknown cost; null where an import does not say",
            "calls",
            False,
        ),
        *_USAGE,
        Column(
            "cost_usd",
            FLOAT,
            "sum over the priced calls, 0 without a call; null if unknown, as for a command arm "
            "without a metered call",
            "USD",
            False,
        ),
        Column(
            "billed_usd",
            FLOAT,
            "bill for all calls ever sent; calls whose answer was lost count at what they could "
            "have cost; null if nothing is known of the price of one, or where an import does not "
            "say",
            "USD",
            False,
        ),
        Column(
            "base_attempt_id",
            TEXT,
            "attempt that it was forked or derived from; null for others and in older files",
            required=False,
        ),
        Column(
            "reused_calls",
            INT,
            "the part of model_calls that was bought for that attempt; null for imports and in "
            "older files",
            "calls",
            False,
        ),
        Column(
            "reused_usd",
            FLOAT,
            "the part of cost_usd that was bought for that attempt; null if unknown",
            "USD",
            False,
        ),
        Column(
            "claimed_usd",
            FLOAT,
            "command arm: what the program says it cost; null if it says nothing",
            "USD",
            False,
        ),
        Column(
            "restarts",
            INT,
            "command arm: how often the program was started again; null for other arms",
            "runs",
            False,
        ),
        Column(
            "answered_from_record",
            INT,
            "command arm: calls of the last run that earlier runs had paid for",
            "calls",
            False,
        ),
        Column(
            "refused_tools",
            INT,
            "command arm: requests for tools that the provider would run, which were refused",
            "calls",
            False,
        ),
        Column(
            "agent_version",
            TEXT,
            "command arm: release that the program states; null for other arms",
            required=False,
        ),
        Column("seed", INT, "seed of everything random in the attempt"),
        Column("image", TEXT, "image reference, or empty on the host"),
        Column(
            "image_digest", TEXT, "image id at the start; null without an image", required=False
        ),
        Column(
            "git_removed",
            TEXTS,
            "names, and number of later commits, that were removed from git before the work; null "
            "where unknown, as for imports and in older files",
            required=False,
        ),
        *_RESOURCES,
        Column("versions", TEXT, "JSON object: package name to version"),
    ),
)

LLM_CALLS = LakeTable(
    "llm_calls",
    "one answered model call; of a command arm, those of the last run",
    (
        *_CELL,
        Column("scope", TEXT, "path of the branch that made the call; empty for the main line"),
        Column("seq", INT, "number of the step within its scope, from 0"),
        Column("role", TEXT, "role that asked; empty if the arm has one conversation"),
        Column("model", TEXT, "the model that answered, by the provider's own name"),
        *_USAGE,
        Column("cost_usd", FLOAT, "null when the price is unknown", "USD", False),
        Column(
            "cost_source",
            TEXT,
            "provider, litellm, declared, recorded, simulated, none (no money) or unknown",
        ),
        Column("finish_reason", TEXT, "as the provider reports it", required=False),
        Column("latency_s", FLOAT, "of the call that succeeded; null for imports", "s", False),
        Column("retries", INT, "failed calls before this one", "calls"),
        Column("started_at", TIME, "when the call was begun", required=False),
    ),
)

STEPS = LakeTable(
    "steps",
    "one step of an attempt: a model call, a command, an action or an event",
    (
        *_CELL,
        Column("scope", TEXT, "path of the branch that made it; empty for the main line"),
        Column("seq", INT, "number within its scope, from 0"),
        Column(
            "kind",
            TEXT,
            "model, command, action (a tool, a diff), event (a reading outside the workspace) or "
            "limit (not begun, because time was up)",
        ),
        Column("request", TEXT, "JSON; for a model call, the messages added since the last one"),
        Column("request_digest", TEXT, "SHA-256 of the whole request as canonical JSON"),
        Column(
            "result",
            TEXT,
            "JSON: the assistant message, the command's output or the action's result, shortened",
        ),
        Column("exit_code", INT, "of a command; null for other steps", required=False),
        Column("output_bytes", INT, "written by a command; null for other steps", "bytes", False),
        Column("timed_out", BOOL, "whether a timeout or a time limit ended it"),
        Column("started_at", TIME, "when it began", required=False),
        Column("duration_s", FLOAT, "wall time; null for imports", "s", False),
    ),
)

PREDICTIONS = LakeTable(
    "predictions",
    "one patch, in the format of the official harness",
    (
        *_CELL,
        Column("model_name_or_path", TEXT, "the official field; holds the arm's name"),
        Column(
            "model_patch",
            TEXT,
            "unified diff; empty when the arm ended without one",
            exact_copy="model_patch_json",
        ),
        Column(
            "model_patch_json",
            TEXT,
            "a patch that is not UTF-8, as a JSON string with escapes such as `\\udce9` for the "
            "byte E9; null if `model_patch` is the whole patch",
            required=False,
        ),
        Column("patch_sha256", TEXT, "of the patch's bytes"),
    ),
)

EVALUATIONS = LakeTable(
    "evaluations",
    "one grading of one prediction",
    (
        *_CELL,
        Column("patch_sha256", TEXT, "the patch that was graded"),
        Column("environment", TEXT, "docker, host, or imported"),
        Column("outcome", TEXT, "resolved, unresolved, patch_failed, timeout or infrastructure"),
        Column("resolved", BOOL, "the official verdict"),
        Column("reason", TEXT, "why it is neither resolved nor unresolved; empty otherwise"),
        Column(
            "audited_verdict",
            TEXT,
            "the outcome, or suspect if a resolved one is in doubt; null if not audited",
            required=False,
        ),
        Column("audit_reasons", TEXTS, "reasons to doubt the verdict, each with its kind"),
        Column("gradings", INT, "number of gradings of the patch; the first one gives the verdict"),
        Column("fail_to_pass_success", TEXTS, "FAIL_TO_PASS tests that pass"),
        Column("fail_to_pass_failure", TEXTS, "FAIL_TO_PASS tests that do not"),
        Column("pass_to_pass_success", TEXTS, "PASS_TO_PASS tests that still pass"),
        Column("pass_to_pass_failure", TEXTS, "PASS_TO_PASS tests that no longer do"),
        Column("log_tail", TEXT, "the last 4,000 characters of the test log"),
        Column("image_digest", TEXT, "image id; null on the host", required=False),
        *_RESOURCES,
        Column("harness_version", TEXT, "version of the swebench package"),
        Column("timeout_s", FLOAT, "limit on the evaluation script", "s"),
        Column("started_at", TIME, "when the grading began", required=False),
        Column("duration_s", FLOAT, "wall time; null for imports", "s", False),
    ),
)

DECISIONS = LakeTable(
    "decisions",
    "one experiment that ended early, as its `stop_when` declares; arm is the candidate",
    (
        Column("decided_at", TIME, "when the evidence was enough"),
        Column("declaration_digest", TEXT, "the declaration that was run, as in `experiments`"),
        Column("baseline", TEXT, "baseline arm of the primary comparison"),
        Column("alpha", FLOAT, "declared level", "share"),
        Column("complete", INT, "complete instances: every cell of both arms had a verdict"),
        Column("candidate_leads", INT, "those at which the candidate resolved more cells"),
        Column("baseline_leads", INT, "those at which the baseline resolved more cells"),
        Column("difference", FLOAT, "mean difference over them, candidate less baseline", "share"),
        Column("e_value", FLOAT, "evidence against equal arms, valid at every look"),
    ),
)

EXPERIMENTS = LakeTable(
    "experiments",
    "one declared arm of one experiment, as declared when the run began",
    (
        Column("declared_at", TIME, "when this declaration was first run"),
        Column(
            "declaration_digest",
            TEXT,
            "SHA-256 of the definition of the experiment, its rows and environment, as canonical "
            "JSON",
        ),
        Column("declaration", TEXT, "the experiment as JSON"),
        Column("arm_order", INT, "position of the arm in the declaration, from 0"),
        Column("agent", TEXT, "kind of arm, or the harness that an import names"),
        Column(
            "model", TEXT, "model string, or none; includes the models of roles with another one"
        ),
        Column("simulated", BOOL, "whether the arm's model is a simulated stand-in"),
        Column("dataset", TEXT, "as written in the experiment"),
        Column("dataset_digest", TEXT, "SHA-256 over the selected rows"),
        Column("instance_ids", TEXTS, "every planned instance: the denominator"),
        Column("repeats", INT, "planned attempts per cell"),
        Column("environment", TEXT, "docker, host or imported"),
        Column(
            "primary_baseline",
            TEXT,
            "baseline arm of the primary comparison; null if none",
            required=False,
        ),
        Column("primary_candidate", TEXT, "the arm compared with it; null if none", required=False),
        Column(
            "primary_margin",
            FLOAT,
            "largest loss at which the candidate still counts as not worse; null if none",
            "share",
            False,
        ),
        Column("family", PAIRS, "the other declared comparisons"),
        Column(
            "willingness_to_pay",
            FLOAT,
            "declared value of one more resolved instance; null if none",
            "USD",
            False,
        ),
        Column(
            "derived_from",
            TEXT,
            "arm with whose attempts it shares steps of the same inputs; null if none",
            required=False,
        ),
        Column(
            "label",
            TEXT,
            "name of the arm in an import; null for runs of this lake",
            required=False,
        ),
        Column(
            "own_instance_ids",
            TEXTS,
            "the planned instances that an imported arm's own files name; null for runs of this "
            "lake",
            required=False,
        ),
        Column(
            "imported_from",
            TEXT,
            "identifies the imported file, if it holds several arms; null otherwise",
            required=False,
        ),
    ),
)

PREFLIGHTS = LakeTable(
    "preflights",
    "one check of one image, valid as long as image and row are the same",
    (
        Column("instance_id", TEXT, "SWE-bench instance"),
        Column("image", TEXT, "image reference"),
        Column("image_digest", TEXT, "image id"),
        Column("row_digest", TEXT, "SHA-256 of the SWE-bench row as canonical JSON"),
        Column("network", BOOL, "whether the container had network access"),
        Column("passed", BOOL, "whether no check failed"),
        Column("reasons", TEXTS, "reasons for a failure, each with its kind"),
        Column("harness_version", TEXT, "version of the swebench package"),
        Column("checked_at", TIME, "when the check began"),
        Column("duration_s", FLOAT, "wall time", "s"),
    ),
)

IMAGES = LakeTable(
    "images",
    "the last pull or build of one image on this machine",
    (
        Column("image", TEXT, "image reference"),
        Column(
            "image_digest",
            TEXT,
            "image id; null during the pull or build, and if that failed",
            required=False,
        ),
        Column("how", TEXT, "built (from a task repo) or pulled"),
        Column(
            "size_bytes",
            INT,
            "disk space that its removal would have freed when it arrived: layers of no other "
            "image; null if image_digest is null",
            "bytes",
            False,
        ),
        Column("brought_at", TIME, "when the pull or build began"),
        Column("last_needed_at", TIME, "when a run last needed it"),
        Column(
            "removed_at",
            TIME,
            "when it was removed or found missing; null if it is present",
            required=False,
        ),
    ),
)

JOBS = LakeTable(
    "jobs",
    "the last known state of one job: a task in a repository, solved and verified",
    (
        Column("job_id", TEXT, "identifies the job; its experiment is `job-<id>`"),
        Column(
            "state",
            TEXT,
            "running, waiting (for approval), chat (begun with `durabench chat`), done, failed or "
            "cancelled",
        ),
        Column("detail", TEXT, "why it is in this state; empty if nothing is to be said"),
        Column("request", TEXT, "the request as JSON; it holds no token"),
        Column("source", TEXT, "address or path of the repository"),
        Column("repo", TEXT, "owner and name of the repository"),
        Column("title", TEXT, "first line of the task"),
        Column("statement", TEXT, "the task as the arms get it"),
        Column("base_commit", TEXT, "commit at which the work began"),
        Column("base_branch", TEXT, "its branch; null for a tag or a commit", required=False),
        Column("image", TEXT, "image of the containers; empty on the host"),
        Column("revises", TEXT, "the job that this one continues; null if none", required=False),
        Column("pipeline", TEXT, "the pipeline as JSON; null if it is no run", required=False),
        Column("run", TEXT, "the run of a pipeline that has this step; else null", required=False),
        Column("step", TEXT, "name of the step; null if it is none", required=False),
        Column("verify_command", TEXT, "command of the verification; null if none", required=False),
        Column("verdict", TEXT, "verified, regressed or not_verified; null so far", required=False),
        Column("reason", TEXT, "the reason for the verdict; null so far", required=False),
        Column(
            "verification",
            TEXT,
            "JSON: the runs before and after, and warnings of linters",
            required=False,
        ),
        Column("arm", TEXT, "arm whose patch was chosen; null if none", required=False),
        Column("attempt_id", TEXT, "attempt that made it; null if none", required=False),
        Column(
            "patch",
            TEXT,
            "the chosen patch; null if none",
            required=False,
            exact_copy="patch_json",
        ),
        Column(
            "patch_json",
            TEXT,
            "a patch that is not UTF-8, as in `predictions`; else null",
            required=False,
        ),
        Column("branch", TEXT, "branch of the commit; null if none was pushed", required=False),
        Column("commit", TEXT, "commit of the patch; null if none", required=False),
        Column("pull_request", TEXT, "its address; null if there is none", required=False),
        Column("cost_usd", FLOAT, "cost of all arms; null if unknown", "USD", False),
        Column("billed_usd", FLOAT, "bill of all arms; null if unknown", "USD", False),
        Column("input_tokens", INT, "of all arms; null if unknown", "tokens", False),
        Column("output_tokens", INT, "of all arms; null if unknown", "tokens", False),
        Column("flow_run_id", TEXT, "the last flow run of the job; null if none", required=False),
        Column("submitted_at", TIME, "when the job began"),
        Column("updated_at", TIME, "when this state was written"),
    ),
)

TABLES = {
    table.name: table
    for table in (ATTEMPTS, LLM_CALLS, STEPS, PREDICTIONS, EVALUATIONS, DECISIONS, EXPERIMENTS)
}
"""Tables of experiments, in folders by experiment and arm."""

SHARED_TABLES = {table.name: table for table in (PREFLIGHTS, IMAGES, JOBS)}
"""Tables that belong to no experiment: `<table>/<unit>.parquet`."""
