#!/bin/bash
set -uxo pipefail
cd /testbed
git status
git checkout 511bd44c36365a624eb409a3a0f46b681e7a6003 size_test.go window_test.go
git apply -v - <<'EOF_114329324912'
diff --git a/size_test.go b/size_test.go
index 168e4f7e79ce7a9fccaa82406538949f31324f2e..c0a45f9fac6b206ca5e1a12172d778b4bacf6200 100644
--- a/size_test.go
+++ b/size_test.go
@@ -28,6 +28,23 @@ func TestParseTenths(t *testing.T) {
 	expectSize(t, "0.3 MB", 300_000)
 }
 
+func TestParseHundredths(t *testing.T) {
+	expectSize(t, "1.25 kB", 1250)
+	expectSize(t, "1.05 MB", 1_050_000)
+	expectSize(t, "2.50 GB", 2_500_000_000)
+}
+
+func TestParseManyDecimals(t *testing.T) {
+	expectSize(t, "0.1234567891 kB", 123)
+	expectSize(t, "1.000000000000000000000001 GiB", 1<<30)
+}
+
+func TestParseRefusesTwoPoints(t *testing.T) {
+	if size, err := Parse("1.2.3 kB"); !errors.Is(err, ErrSize) {
+		t.Errorf("it is %d, %v", size, err)
+	}
+}
+
 func TestParseRefuses(t *testing.T) {
 	for _, text := range []string{"", "kB", "1 parsec", "-1 B", "1,5 kB"} {
 		if size, err := Parse(text); !errors.Is(err, ErrSize) {
EOF_114329324912
: '>>>>> Start Test Output'
go test -v -count=1 ./...
: '>>>>> End Test Output'
git checkout 511bd44c36365a624eb409a3a0f46b681e7a6003 size_test.go window_test.go
