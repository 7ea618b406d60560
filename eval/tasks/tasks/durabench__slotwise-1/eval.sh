#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONDONTWRITEBYTECODE=1
git status
git checkout 1f5713e2b11c0db4d98d568e5171a841cdb53fc2 tests/conftest.py tests/test_durations.py tests/test_interval.py tests/test_planner.py tests/test_recurrence.py tests/test_sets.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_interval.py b/tests/test_interval.py
index d641e5299bed4e21e010be7cfd89ed4c357aef04..2b85255c4e02d90677a5319bd3aff29ea8f0fcdb 100644
--- a/tests/test_interval.py
+++ b/tests/test_interval.py
@@ -23,6 +23,11 @@ def test_overlaps(at):
     assert not at("9-10").overlaps(at("11-12"))
 
 
+def test_intervals_that_follow_each_other_do_not_overlap(at):
+    assert not at("9-10").overlaps(at("10-11"))
+    assert not at("10-11").overlaps(at("9-10"))
+
+
 def test_covers(at):
     assert at("9-12").covers(at("9-10"))
     assert at("9-12").covers(at("9-12"))
diff --git a/tests/test_planner.py b/tests/test_planner.py
index e4c420b2c99d7538f70a0ea0a60873a8030874bd..4dc13b73dae4c40be98048a3f6b55aa3a100cf1a 100644
--- a/tests/test_planner.py
+++ b/tests/test_planner.py
@@ -12,6 +12,19 @@ def test_booking_twice_at_the_same_time(at):
         planner.book("lunch", at("10:30-12"))
 
 
+def test_booking_back_to_back(at):
+    planner = Planner(at("9-17"))
+    planner.book("review", at("10-11"))
+    planner.book("lunch", at("11-12"))
+    planner.book("mail", at("9-10"))
+    assert planner.booked() == IntervalSet([at("9-12")])
+
+
+def test_back_to_back_is_no_conflict(at):
+    bookings = [("a", at("9-10")), ("b", at("10-11")), ("c", at("10:59-12"))]
+    assert conflicts(bookings) == [("b", "c")]
+
+
 def test_a_refused_booking_changes_nothing(at):
     planner = Planner(at("9-17"))
     planner.book("review", at("10-11"))
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_durations.py tests/test_interval.py tests/test_planner.py tests/test_recurrence.py tests/test_sets.py
: '>>>>> End Test Output'
git checkout 1f5713e2b11c0db4d98d568e5171a841cdb53fc2 tests/conftest.py tests/test_durations.py tests/test_interval.py tests/test_planner.py tests/test_recurrence.py tests/test_sets.py
