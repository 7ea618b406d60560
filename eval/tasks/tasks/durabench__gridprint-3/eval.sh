#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONDONTWRITEBYTECODE=1
git status
git checkout c799f50ab0c80e5794916efa4271a7e441232a27 tests/test_cells.py tests/test_cli.py tests/test_render.py tests/test_source.py tests/test_table.py tests/test_width.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_main.py b/tests/test_main.py
new file mode 100644
index 0000000000000000000000000000000000000000..43efb2aefda47dd5cee75ffed4f60fc15d285a47
--- /dev/null
+++ b/tests/test_main.py
@@ -0,0 +1,37 @@
+import os
+import subprocess
+import sys
+from pathlib import Path
+
+import gridprint
+
+SOURCES = Path(gridprint.__file__).parent.parent
+
+
+def run(*arguments, text=""):
+    return subprocess.run(
+        [sys.executable, "-m", "gridprint", *arguments],
+        input=text,
+        capture_output=True,
+        check=False,
+        encoding="utf-8",
+        env={**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONIOENCODING": "utf-8"},
+    )
+
+
+def test_a_table_from_standard_input():
+    finished = run("--style", "box", "-", text="a,b\n1,ü\n")
+    assert finished.returncode == 0, finished.stderr
+    assert finished.stdout.splitlines()[3] == "│ 1 │ ü │"
+
+
+def test_the_exit_code_tells_what_went_wrong():
+    finished = run("missing.csv")
+    assert finished.returncode == 2
+    assert finished.stderr.startswith("gridprint: ")
+
+
+def test_the_usage_has_the_name_of_the_command():
+    finished = run("--help")
+    assert finished.returncode == 0
+    assert finished.stdout.startswith("usage: gridprint [-h]")
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_cells.py tests/test_cli.py tests/test_main.py tests/test_render.py tests/test_source.py tests/test_table.py tests/test_width.py
: '>>>>> End Test Output'
git checkout c799f50ab0c80e5794916efa4271a7e441232a27 tests/test_cells.py tests/test_cli.py tests/test_render.py tests/test_source.py tests/test_table.py tests/test_width.py
rm -f tests/test_main.py
