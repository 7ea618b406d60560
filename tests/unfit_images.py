"""A dataset of two bundled instances, of which one has an image that fails the preflight."""

import json
from pathlib import Path

from eval import instances

FIT, UNFIT = instances.load("bundled")[:2]

_NOTES = """\
diff --git a/NOTES.txt b/NOTES.txt
new file mode 100644
--- /dev/null
+++ b/NOTES.txt
@@ -0,0 +1 @@
+Nothing is repaired by this.
"""


def write_dataset(folder: Path) -> str:
    """Write the two rows, the second with a reference patch that resolves nothing.

    Return the path.
    """
    rows = [FIT.row, {**UNFIT.row, "patch": _NOTES}]
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row, default=str)}\n" for row in rows))
    return str(path)
