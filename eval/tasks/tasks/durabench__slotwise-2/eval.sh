#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONDONTWRITEBYTECODE=1
git status
git checkout 2d148acb14a171a270a018233555117800a9a525 tests/conftest.py tests/test_durations.py tests/test_interval.py tests/test_planner.py tests/test_recurrence.py tests/test_sets.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_planner.py b/tests/test_planner.py
index 4dc13b73dae4c40be98048a3f6b55aa3a100cf1a..fa39736a07222b87a920a0db57c625711f163469 100644
--- a/tests/test_planner.py
+++ b/tests/test_planner.py
@@ -69,3 +69,10 @@ def test_common_free(at):
     ada, ben = Planner(at("9-13")), Planner(at("10-17"))
     assert common_free([ada, ben]) == IntervalSet([at("10-13")])
     assert common_free([]) == IntervalSet()
+
+
+def test_common_free_around_several_bookings(at):
+    ada, ben = Planner(at("9-17")), Planner(at("8-18"))
+    ben.book("call", at("10-11"))
+    ben.book("lunch", at("12-13"))
+    assert common_free([ada, ben]) == IntervalSet([at("9-10"), at("11-12"), at("13-17")])
diff --git a/tests/test_sets.py b/tests/test_sets.py
index c4de6f475f2edb2e429b154366f84e5d2e2b1ed3..9d64854b72b2a00bc4d06b12e4803978cf223b1a 100644
--- a/tests/test_sets.py
+++ b/tests/test_sets.py
@@ -1,6 +1,7 @@
+import random
 from datetime import timedelta
 
-from slotwise import IntervalSet
+from slotwise import Interval, IntervalSet
 
 
 def test_intervals_are_ordered(at):
@@ -44,6 +45,29 @@ def test_intersection_without_common_time(at):
     assert IntervalSet([at("9-10")]) & IntervalSet([at("10-11")]) == IntervalSet()
 
 
+def test_intersection_with_one_that_spans_several(at):
+    day = IntervalSet([at("9-17")])
+    parts = IntervalSet([at("9:30-10"), at("11-12"), at("16-18")])
+    assert day & parts == IntervalSet([at("9:30-10"), at("11-12"), at("16-17")])
+    assert parts & day == day & parts
+
+
+def test_intersection_agrees_with_difference(at):
+    generator = random.Random(3)
+    for _ in range(200):
+        left, right = (
+            IntervalSet(
+                Interval.lasting(
+                    at("8") + timedelta(minutes=5 * generator.randrange(60)),
+                    timedelta(minutes=5 * generator.randrange(1, 20)),
+                )
+                for _ in range(generator.randrange(6))
+            )
+            for _ in range(2)
+        )
+        assert left & right == left - (left - right)
+
+
 def test_difference(at):
     day = IntervalSet([at("9-17")])
     busy = IntervalSet([at("8-9:30"), at("12-13"), at("16-18")])
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_durations.py tests/test_interval.py tests/test_planner.py tests/test_recurrence.py tests/test_sets.py
: '>>>>> End Test Output'
git checkout 2d148acb14a171a270a018233555117800a9a525 tests/conftest.py tests/test_durations.py tests/test_interval.py tests/test_planner.py tests/test_recurrence.py tests/test_sets.py
