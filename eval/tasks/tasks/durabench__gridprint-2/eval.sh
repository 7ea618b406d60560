#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONDONTWRITEBYTECODE=1
git status
git checkout b44e05acc7814746b9592249b66894033fc9f90d tests/test_cells.py tests/test_cli.py tests/test_render.py tests/test_source.py tests/test_table.py tests/test_width.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_render.py b/tests/test_render.py
index ef3daadedcdf1f6142768567030b0328d37ebffc..b2f7fc51394e25352a0058456b3f3fd5ddcc210b 100644
--- a/tests/test_render.py
+++ b/tests/test_render.py
@@ -82,3 +82,21 @@ def test_columns_of_wide_characters_are_straight():
         "│ Łódź │  655279 │",
         "└──────┴─────────┘",
     ]
+
+
+def test_render_looks_at_every_row():
+    rows = [["short"]] * 1000 + [["longer than all before"]]
+    lines = render(Table(["text"], rows)).splitlines()
+    assert lines[1] == "-" * 22
+    assert lines[-1] == "longer than all before"
+
+
+def test_a_large_table_is_complete():
+    rows = [[number, f"entry {number} " + "x" * (60 + number // 400)] for number in range(16_000)]
+    text = render(Table(["number", "entry"], rows, aligns="><"), BOX)
+    # Printed in full: a column that is not straight is found by looking, not by reading asserts.
+    print(text)
+    lines = text.splitlines()
+    assert len(lines) == 16_004
+    assert {len(line) for line in lines} == {len(lines[0])}
+    assert lines[-2].split() == ["│", "15999", "│", "entry", "15999", "x" * 99, "│"]
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_cells.py tests/test_cli.py tests/test_render.py tests/test_source.py tests/test_table.py tests/test_width.py
: '>>>>> End Test Output'
git checkout b44e05acc7814746b9592249b66894033fc9f90d tests/test_cells.py tests/test_cli.py tests/test_render.py tests/test_source.py tests/test_table.py tests/test_width.py
