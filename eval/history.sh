# Queries about everything that git keeps in one folder. `eval.history` sets base (a commit),
# folder (a .git) and limit (lines), and calls one function. Messages of git are discarded,
# because a missing object is a valid answer. Needs bash, git 2.20, coreutils, find.

set -o pipefail
export LC_ALL=C GIT_NO_REPLACE_OBJECTS=1 GIT_OPTIONAL_LOCKS=0
id='[0-9a-f]{40}([0-9a-f]{24})?'

git() { command git -c safe.directory='*' --git-dir="$folder" "$@" 2>/dev/null; }

objects() { git cat-file --batch-all-objects --batch-check='%(objecttype) %(objectname)'; }

commits() { objects | sed -n 's/^commit //p' | sort; }

has_base() { git rev-parse -q --verify "$base^{commit}"; }

# The base commit, then all commits outside of its history, newest first:
# id, time, tree, committer, parents.
outside_history() {
  { echo "$base"; comm -23 <(commits) <(git rev-list "$base" | sort); } |
    git log --no-walk=unsorted --stdin --format='%H %ct %T %ce %P' |
    { IFS= read -r first; printf '%s\n' "$first"; sort -rn -k 2,2; } | sed -n "1,${limit}p"
}

# Name and id, and for an annotated tag the id of its target.
references() { git for-each-ref --format='%(refname) %(objectname) %(*objectname)'; }

# File and id of every commit that a reflog or a file such as ORIG_HEAD names.
logged() {
  cd -- "$(git rev-parse --git-common-dir)" || return
  find . -maxdepth 1 -type f -name '*_HEAD' -exec grep -oHE "\\b$id\\b" {} +
  find logs worktrees/*/logs -type f -exec grep -oHE "\\b$id\\b" {} + 2>/dev/null
  true
}

# Path and id of every worktree except the first, which is the repository's own.
worktrees() {
  git worktree list --porcelain | sed -n -e 's/^worktree //p' -e 's/^HEAD //p' |
    paste - - | tail -n +2
}

remotes() { git config --get-regexp '^remote\..*\.url$' || true; }

packs() { cd -- "$(git rev-parse --git-path objects)/pack" 2>/dev/null; }

# Those of the ids in $wanted that are in pack files.
packed() {
  packs || return 0
  for index in *.idx; do
    [[ ! -f $index ]] || git show-index <"$index"
  done | grep -oE "\\b$id\\b" | grep -xF -e "$wanted" || true
}

# Packs without an index. Git ignores them, but an agent can read them.
unindexed_packs() {
  packs || return 0
  for pack in *.pack tmp_pack_*; do
    [[ ! -f $pack || -f ${pack%.pack}.idx ]] || printf '%s\n' "$pack"
  done
}

# Blobs and trees that belong to no commit.
unexplained() {
  comm -13 \
    <({ echo "$base"; commits; } | git rev-list --objects --stdin | cut -d ' ' -f 1 | sort -u) \
    <(objects | sed -nE 's/^(tree|blob) //p' | sort) | sed -n "1,${limit}p"
}

# Other git folders and bundles in the whole container.
elsewhere() {
  { find / -xdev \( -path /proc -o -path /sys -o -path "$folder" \) -prune -o -type f \
    \( -name '*.bundle' -o -name HEAD \) -print 2>/dev/null || true; } |
    while IFS= read -r path; do
      [[ $path == *.bundle ]] || path=${path%/HEAD}
      [[ ! -d $path || (-d $path/objects && -d $path/refs) ]] && printf '%s\n' "$path"
    done
  true
}

# The ids that a bundle names.
bundled() { command git bundle list-heads "$folder" 2>/dev/null | cut -d ' ' -f 1 || true; }
