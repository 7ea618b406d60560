#!/bin/bash
set -uxo pipefail
cd /testbed
git status
git checkout 4804806307e41b310881e37becf7f1f86ec4d31b test/pattern.test.js test/router.test.js
git apply -v - <<'EOF_114329324912'
diff --git a/test/pattern.test.js b/test/pattern.test.js
index 5581218b69dbd6818b0866e4e495c43ff1184280..f033357a8e188f865e1b8842149277c34f36cae2 100644
--- a/test/pattern.test.js
+++ b/test/pattern.test.js
@@ -22,3 +22,15 @@ test('a missing parameter', () => {
 test('numbers are parameters', () => {
   assert.strictEqual(compile('/:year').build({ year: 2025 }), '/2025');
 });
+
+test('a point stands for itself', () => {
+  const pattern = compile('/feed.:format');
+  assert.deepStrictEqual(pattern.match('/feed.xml'), { format: 'xml' });
+  assert.strictEqual(pattern.match('/feedxxml'), null);
+});
+
+test('signs of regular expressions stand for themselves', () => {
+  assert.deepStrictEqual(compile('/c++/:page').match('/c++/1'), { page: '1' });
+  assert.deepStrictEqual(compile('/(draft)/:page').match('/(draft)/1'), { page: '1' });
+  assert.deepStrictEqual(compile('/a|b').match('/a|b'), {});
+});
EOF_114329324912
: '>>>>> Start Test Output'
node --test --test-reporter=tap test/pattern.test.js test/router.test.js
: '>>>>> End Test Output'
git checkout 4804806307e41b310881e37becf7f1f86ec4d31b test/pattern.test.js test/router.test.js
