#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONDONTWRITEBYTECODE=1
git status
git checkout 216d7cca2e35210add1417641824636011410a85 tests/test_cells.py tests/test_cli.py tests/test_render.py tests/test_source.py tests/test_table.py tests/test_width.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_render.py b/tests/test_render.py
index e80ba2259b59cb7e2dfe49335039fa82dd3dca51..ef3daadedcdf1f6142768567030b0328d37ebffc 100644
--- a/tests/test_render.py
+++ b/tests/test_render.py
@@ -70,3 +70,15 @@ def test_stream_does_not_wait_for_the_last_row():
 def test_stream_clips_what_is_wider_than_the_first_rows():
     rows = [["short"]] * 200 + [["much too long"]]
     assert list(stream(["text"], rows))[-1] == "much…"
+
+
+def test_columns_of_wide_characters_are_straight():
+    table = Table(["都市", "人口"], [["東京", 9_733_276], ["Łódź", 655_279]], aligns="<>")
+    assert render(table, BOX).splitlines() == [
+        "┌──────┬─────────┐",
+        "│ 都市 │    人口 │",
+        "├──────┼─────────┤",
+        "│ 東京 │ 9733276 │",
+        "│ Łódź │  655279 │",
+        "└──────┴─────────┘",
+    ]
diff --git a/tests/test_width.py b/tests/test_width.py
index c23ef13f79d056c3fffaf2fe3a84428c61a8fe0b..37ac0639c820029befd0a14ed08cd9bd3b1489f8 100644
--- a/tests/test_width.py
+++ b/tests/test_width.py
@@ -2,6 +2,8 @@ import pytest
 
 from gridprint.width import clip, fit, pad
 
+DECOMPOSED = "Zu\u0308rich"  # ü as u and a combining diaeresis
+
 
 @pytest.mark.parametrize(
     ("width", "expected"),
@@ -29,3 +31,31 @@ def test_fit():
 
 def test_accents_are_part_of_their_letter():
     assert pad("Zürich", 8) == "Zürich  "
+    assert pad(DECOMPOSED, 8) == DECOMPOSED + "  "
+    assert pad(DECOMPOSED, 8, ">") == "  " + DECOMPOSED
+
+
+def test_wide_characters_take_two_columns():
+    assert pad("東京", 6) == "東京  "
+    assert pad("東京", 6, "^") == " 東京 "
+    assert pad("ＡＢ", 5, ">") == " ＡＢ"
+
+
+def test_clipping_counts_columns():
+    assert clip("東京都", 6) == "東京都"
+    assert clip("東京都", 5) == "東京…"
+    assert clip("東京都", 4) == "東…"
+    assert clip("東京都", 1) == "…"
+
+
+def test_half_a_wide_character_is_filled_up():
+    assert fit("東京都", 4) == "東… "
+
+
+def test_clipping_keeps_accents_with_their_letter():
+    assert clip(DECOMPOSED, 6) == DECOMPOSED
+    assert clip(DECOMPOSED, 3) == "Zu\u0308…"
+
+
+def test_invisible_characters_take_no_column():
+    assert pad("a\u200bb", 3) == "a\u200bb "
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_cells.py tests/test_cli.py tests/test_render.py tests/test_source.py tests/test_table.py tests/test_width.py
: '>>>>> End Test Output'
git checkout 216d7cca2e35210add1417641824636011410a85 tests/test_cells.py tests/test_cli.py tests/test_render.py tests/test_source.py tests/test_table.py tests/test_width.py
