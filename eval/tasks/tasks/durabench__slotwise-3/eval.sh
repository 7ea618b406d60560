#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONDONTWRITEBYTECODE=1
git status
git checkout 28c3d93484928cbc6ad64a6e09190e70b5bf6730 tests/conftest.py tests/test_durations.py tests/test_interval.py tests/test_planner.py tests/test_recurrence.py tests/test_sets.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_recurrence.py b/tests/test_recurrence.py
index abb4e73faf30c5ef1249a18921c142fc48b61db2..737bf2403eda26a18485586bdb91899b5809f9f3 100644
--- a/tests/test_recurrence.py
+++ b/tests/test_recurrence.py
@@ -1,3 +1,5 @@
+import signal
+from contextlib import contextmanager
 from datetime import datetime, time, timedelta
 
 import pytest
@@ -48,6 +50,46 @@ def test_slots():
     ]
 
 
+@contextmanager
+def at_most_two_seconds():
+    def give_up(*_):
+        pytest.fail("still searching after two seconds")
+
+    before = signal.signal(signal.SIGALRM, give_up)
+    signal.alarm(2)
+    try:
+        yield
+    finally:
+        signal.alarm(0)
+        signal.signal(signal.SIGALRM, before)
+
+
+@pytest.mark.parametrize(
+    "make",
+    [lambda: Monthly(30, months={2}), lambda: Monthly(31, months={4, 6}), lambda: Weekly(())],
+    ids=["february-30", "april-and-june-31", "no-weekday"],
+)
+def test_rules_that_never_happen(make):
+    with at_most_two_seconds(), pytest.raises(RuleError):
+        take(make(), datetime(2025, 1, 1), 1)
+
+
+def test_a_rule_without_months_never_happens():
+    with pytest.raises(RuleError):
+        Monthly(1, months=())
+
+
+def test_a_leap_day_may_be_eight_years_away():
+    rule = Monthly(29, months={2})
+    with at_most_two_seconds():
+        assert days(take(rule, datetime(2095, 1, 1), 2)) == ["2096-02-29", "2104-02-29"]
+
+
+def test_one_month_that_is_long_enough_will_do():
+    rule = Monthly(31, months={2, 4, 12})
+    assert days(take(rule, datetime(2025, 1, 1), 2)) == ["2025-12-31", "2026-12-31"]
+
+
 @pytest.mark.parametrize(
     "make",
     [
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_durations.py tests/test_interval.py tests/test_planner.py tests/test_recurrence.py tests/test_sets.py
: '>>>>> End Test Output'
git checkout 28c3d93484928cbc6ad64a6e09190e70b5bf6730 tests/conftest.py tests/test_durations.py tests/test_interval.py tests/test_planner.py tests/test_recurrence.py tests/test_sets.py
