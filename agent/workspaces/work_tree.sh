# Functions that read and write the work tree regardless of anything that its user may have done to
# git: the index, settings, hooks and branches of the repository are ignored. The command server
# has them from its start. `agent.workspaces.repository` sets root, scratch, base, opening and others,
# and calls `enter` and one other function. Needs bash, git 2.20, coreutils, find.
#
# The reference of every difference is the tree at the opening, and not the base commit: official
# images change files of it, or commit on top of it.
#
# In $scratch  start    .git without its objects, as it was when the workspace was opened
#              present  untracked files at the opening, ignored or not
#              files    all files at the opening, each with its kind
#              opening  the patch from the base commit to the tree at the opening
#              known    the ids of the base commit and of that tree
#              removed  what `forget` removed
#              bytes    a git folder for checkpoints, which takes files byte by byte
#              patch    one for patches, with the line endings that .gitattributes sets
#              now      a file that was changed at the time of the last look
#              objects  the objects that those two write; all others are in the repository

# Prepares a copy of the server for any other function.
enter() {
  left_out=0
  unset "${!GIT_@}"
  export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1
  export GIT_NO_REPLACE_OBJECTS=1 LC_ALL=C
  cd -- "$root" || exit
}

# Saves the state at the opening, once. Prints its ids, the time if it was saved just now, and all
# files there are; or nothing without a repository.
begin() {
  if [[ -d $scratch/start && -f $scratch/known ]]; then
    begun
    return
  fi
  local id
  id=$(git --git-dir=.git rev-parse -q --verify "$base^{commit}" 2>/dev/null) || return 0
  [[ -d .git/objects ]] || return 0
  base=$id opening=$id
  need_scratch && copy_repository .git "$scratch/start" || return
  look bytes && new_index && git ls-files -zo --directory >"$scratch/present" &&
    mark && files >"$scratch/files" && collect 2>"$scratch/log" &&
    difference >"$scratch/opening" || return
  opening=$tree
  : >"$GIT_DIR/changed"
  echo "$base $opening" >"$scratch/known"
  stamp "$(stat -c %.9Z -- "$scratch/now")"
  echo "$base $opening $stamped"
  cat -- "$scratch/files"
}

# Removes what git has of the time after the base commit, once and before `begin`: an agent could find
# the solution in it. If there are later commits outside of the history of the opened commit, these are
# all other names, logs and objects. Remotes are removed in any case. Prints what was removed.
#
# Content without a commit stays: to find it, git has to read all trees, in each workspace.
forget() {
  if [[ ! -d $scratch/start && -d .git/objects && ! -L .git ]]; then
    local removed
    removed=$(GIT_DIR=.git forget_later 2>/dev/null)
    need_scratch && printf '%s' "${removed:+$removed$'\n'}" >"$scratch/removed" || return
  fi
  [[ ! -f $scratch/removed ]] || cat -- "$scratch/removed"
}

forget_later() {
  local since name later
  export GIT_DIR
  git merge-base --is-ancestor "$base" HEAD || return 0
  git config --get-regexp '^remote\..*\.url$' | while read -r name _; do
    name=${name#remote.} name=${name%.url}
    git config --remove-section "remote.$name" && echo "the remote $name"
  done
  since=$(git log -1 --format=%ct "$base") && later=$(count_later) && ((later)) || return 0
  git for-each-ref --no-merged=HEAD --format='%(refname)' | while read -r name; do
    git -c core.hooksPath=/dev/null update-ref --no-deref -d "$name" && echo "$name"
  done
  rm -rf -- .git/logs .git/worktrees .git/*_HEAD .git/objects/info/commit-graph* \
    .git/objects/pack/{tmp_*,*.keep}
  git -c gc.auto=0 prune --expire=now
  if (($(count_later))); then
    git -c repack.writeBitmaps=false repack -a -d -q && git prune-packed -q
  fi
  echo "$((later - $(count_later))) later commits"
}

# Counts the commits outside of the history of HEAD that are later than $since. Git would list HEAD if it
# were given none, so it also gets the base commit.
count_later() {
  { echo "$base" && comm -23 \
    <(git cat-file --batch-all-objects --batch-check='%(objecttype) %(objectname)' |
      sed -n 's/^commit //p' | sort) <(git rev-list HEAD | sort); } |
    git log --no-walk=unsorted --stdin --format=%ct |
    { local count=0 time
      while read -r time; do ((time <= since)) || ((++count)); done
      echo "$count"; }
}

begun() {
  [[ ! -d $scratch/start || ! -f $scratch/known ]] || cat -- "$scratch/known" "$scratch/files"
}

# Prints everything except folders with its kind, also inside nested repositories, which git
# ignores. Makes each folder accessible before it is entered, and leaves out folders of other users.
files() {
  find . -name .git -prune -o -type d ! -perm -u=rwx -exec chmod u+rwx -- {} \; -o \
    ! -type d -printf '%y%P\0'
  return 0
}

copy_repository() {
  mkdir -p -- "$2" || return
  find "$1" -mindepth 1 -maxdepth 1 ! -name objects ! -name modules \
    -exec cp -a -t "$2" -- {} +
}

# Makes git read the work tree through the git folder of that name, and know the tree at the opening.
look() {
  if [[ ! -d .git/objects ]]; then
    echo "this is not a git repository any more: .git was removed" >&2
    return 1
  fi
  export GIT_DIR=$scratch/$1 GIT_WORK_TREE=$root GIT_OBJECT_DIRECTORY=$scratch/objects
  [[ -f $GIT_DIR/HEAD ]] && return
  mkdir -p -- "$GIT_DIR/refs" "$GIT_DIR/info" "$scratch/objects/info" || return
  printf '%s\n' "$root/.git/objects" >"$scratch/objects/info/alternates"
  printf '%s\n' '[core]' 'repositoryFormatVersion = 0' 'fileMode = true' 'symlinks = true' \
    'ignoreCase = false' 'autocrlf = false' 'safecrlf = false' 'fsmonitor = false' \
    'fsync = none' 'protectHFS = false' 'protectNTFS = false' 'hooksPath = /dev/null' 'compression = 1' \
    "excludesFile = \"$root/.git/info/exclude\"" \
    '[advice]' 'addEmbeddedRepo = false' '[gc]' 'auto = 0' >"$GIT_DIR/config"
  [[ $1 == patch ]] || echo '* -text -ident -filter !eol !working-tree-encoding !diff' \
    >"$GIT_DIR/info/attributes"
  echo "$base" >"$GIT_DIR/HEAD"
  make_tree "$opening" "$scratch/opening" "$base" || { rm -f -- "$GIT_DIR/HEAD" && return 1; }
}

# Updates the index: the current files of the opening, all new files that are not ignored, and
# ignored files that were added by force to the user's own index. Sets tree to the id of its tree.
#
# The index is reused, because git then reads only changed files. It has to be corrected if the
# rules changed: an entry that is now ignored, or a file of the opening that was restored.
collect() {
  [[ ! -e $GIT_DIR/index.lock ]] || rm -f -- "$GIT_DIR/index.lock"
  [[ -f $GIT_DIR/index ]] || new_index || return
  add_all && read_index || return
  ! rules_changed && ! came_back && return
  git read-tree -m -i "$opening" && add_all || return
  readable <"$GIT_DIR/forced" | git update-index -z --add --replace --stdin || return
  read_index && exceptions >"$GIT_DIR/settled"
}

# Makes the index of the opening and compares it with the files. `git add` alone would touch
# each object that it finds in the repository, and a container first copies a file of its image
# that is touched: all objects, or the whole pack.
new_index() { git read-tree "$opening" && { git update-index -q --refresh || :; }; }

# Leaves out unreadable files and repositories without a commit, and then sets left_out.
add_all() { git add -A --ignore-errors || { (($? == 1)) && left_out=1; }; }

# Lists ignored files in the index, those in the user's index, and the changes since the opening.
# Sets tree.
read_index() {
  git ls-files -zci --exclude-standard >"$GIT_DIR/ignored" &
  GIT_INDEX_FILE=$root/.git/index git ls-files -zci --exclude-standard >"$GIT_DIR/forced" &
  git write-tree >"$GIT_DIR/tree" &
  compare "$opening" >"$GIT_DIR/changed"
  wait
  read -r tree <"$GIT_DIR/tree"
}

exceptions() {
  [[ ! -s $GIT_DIR/ignored && ! -s $GIT_DIR/forced ]] ||
    { cat -- "$GIT_DIR/ignored" && printf '/\0' && cat -- "$GIT_DIR/forced"; }
}

rules_changed() {
  [[ -s $GIT_DIR/ignored || -s $GIT_DIR/forced || -s $GIT_DIR/settled ]] &&
    ! exceptions | cmp -s -- - "$GIT_DIR/settled"
}

# Returns 0 if a missing file of the opening exists.
came_back() {
  local kind path
  while IFS= read -rd '' kind && IFS= read -rd '' path; do
    [[ $kind != *D ]] || ! can_read "$path" || return 0
  done <"$GIT_DIR/changed"
  return 1
}

can_read() { [[ -L $1 || (-f $1 && -r $1) ]]; }

readable() {
  local path
  while IFS= read -rd '' path; do
    can_read "$path" && printf '%s\0' "$path"
  done
  return 0
}

# Begins a look. Commands find changes since the last tick of the kernel's clock before it, so that
# a change in the same tick, or meanwhile, counts as a change the next time. Linux 6.13 and newer
# give a file that was read since its last change a finer time, after all changes before it.
mark() { : >"$scratch/now" && [[ -e $scratch/now ]] && : >"$scratch/now"; }

# Sets stamped to just before $1, the time of change of the file `now`: seconds with nine decimals.
stamp() {
  local ns=$((${1/./} - 1))
  stamped=${ns:0:-9}.${ns: -9}
}

# Prints the work tree: see `report`. After the changes since the opening come, unless it is the tree
# $want, the changes since that tree and the difference from the opening.
survey() {
  local tree since='' delta=''
  mark && look bytes && files >"$scratch/present_now" && collect || return
  if [[ $tree != "$want" ]]; then
    delta=$scratch/delta
    difference >"$delta" &
    # The tree $want is unknown if $scratch was destroyed since.
    [[ $want ]] && compare "$want" >"$scratch/since" && since=$scratch/since
    wait $! || return
  fi
  report "$tree" "$since" "$delta"
}

# Prints the time, the id of the tree $1, 1 if git left out a file, and the sizes of the following
# parts: all files there are, git's list of the changes since the opening, and the files ${@:2}. A name that is
# empty, and a difference that is larger than $most, are left out with the size -1.
report() {
  local tree=$1
  local -A size=()
  local -a sizes=() shown=()
  local bytes time name
  set -- "$scratch/present_now" "$GIT_DIR/changed" "${@:2}"
  while read -r bytes time name; do
    size[$name]=$bytes
    [[ $name != "$scratch/now" ]] || stamp "$time"
  done < <(stat -c '%s %.9Z %n' -- "$scratch/now" "$@")
  for name; do
    if [[ ! $name || ($name == */delta && ${size[$name]} -gt $most) ]]; then sizes+=(-1)
    else sizes+=("${size[$name]}") && shown+=("$name")
    fi
  done
  echo "$stamped $tree $left_out ${sizes[*]}"
  cat -- "${shown[@]}"
}

# Treats the current ignored files as if they had existed at the opening.
settle() { look bytes && collect && git ls-files -zo --directory >"$scratch/present"; }

checkpoint() {
  look bytes && collect && echo "$tree" >"$scratch/delta" && difference >>"$scratch/delta" &&
    cat -- "$scratch/delta"
}

# Prints the difference from the opening. $scratch/given has pathspecs, each ending in NUL.
patch() {
  local -a specs
  mapfile -d '' specs <"$scratch/given"
  look_with_attributes && difference "${specs[@]}" >"$scratch/delta" && cat -- "$scratch/delta"
}

# Makes git read the work tree and the opening as it does for a user, if a file sets attributes. If
# $unchanged, the index of `bytes` and the list of present files are from the last survey.
look_with_attributes() {
  look bytes && { [[ $unchanged && -f $GIT_DIR/index ]] || collect; } || return
  ! has_attributes || { look patch && collect && normalize_opening; }
}

# Sets opening to a tree whose files have line endings as .gitattributes sets them, now. Files that
# did not change since are taken from the index.
normalize_opening() {
  local -x GIT_INDEX_FILE=$scratch/target
  local entry path mode id status
  cp -- "$GIT_DIR/index" "$scratch/target" || return
  while IFS= read -rd '' entry && IFS= read -rd '' path; do
    read -r mode _ id _ status <<<"${entry#:}"
    case $status in
      A) mode=0 ;;
      *) [[ $mode != 100* ]] ||
        id=$(git cat-file blob "$id" | git hash-object -w --stdin --path="$path") || return ;;
    esac
    printf '%s %s\t%s\0' "$mode" "$id" "$path"
  done <"$scratch/bytes/changed" >"$scratch/entries" &&
    git update-index -z --index-info <"$scratch/entries" && opening=$(git write-tree)
}

# Returns 1 if no file sets attributes, now or at the opening. Patches are then made by `bytes`,
# whose index has the files already.
has_attributes() {
  [[ $unchanged && -f $scratch/present_now ]] || files >"$scratch/present_now"
  grep -qz '\.gitattributes$' -- "$scratch/files" "$scratch/present_now"
  (($? != 1)) # unknown without the list of the opening
}

# Prints the patch from the tree $want, which a checkpoint or a restored tree left among the objects.
patch_since() {
  look bytes && need_tree && collect && opening=$want difference >"$scratch/delta" &&
    cat -- "$scratch/delta"
}

# Ends if git does not know the tree $want, because a command removed it or a function failed once.
need_tree() {
  git cat-file -e "$want" 2>/dev/null && return
  cat -- "$scratch/log"
  echo "the earlier tree $want is unknown: git's data in $scratch were removed since"
  exit 3
}

difference() {
  git diff --cached --binary --full-index --no-color --no-renames --no-ext-diff --no-textconv \
    "$opening" -- "$@"
}

# Prints the differences from the tree $want among tracked and unignored files.
changes_since() {
  look bytes && need_tree && collect && compare "$want" >"$scratch/delta" && cat -- "$scratch/delta"
}

# Lists the differences from the tree $1 in git's raw form.
compare() {
  git diff-index --cached -z --raw --no-abbrev --no-renames --ignore-submodules=all "$1" --
}

# Restores the paths in $scratch/given, each ending in NUL, to their state at the opening.
put_back() {
  look bytes || return
  local -x GIT_INDEX_FILE=$scratch/target GIT_LITERAL_PATHSPECS=1
  local path obstacle=
  git read-tree "$opening" || return
  while IFS= read -rd '' path; do
    find_obstacle "$path" && printf '%s\0' "$obstacle"
  done <"$scratch/given" | sort -zu >"$scratch/wanted"
  xargs -0r rm -rf -- <"$scratch/wanted" || return
  xargs -0r git ls-files -z -- <"$scratch/wanted" | git checkout-index -fz --stdin
}

# Sets obstacle to the path that has to be removed before a path can be restored: the path
# itself, or the first of its parents that is no longer a folder. Returns 1 if that parent was
# not a folder at the opening either.
find_obstacle() {
  local parent= rest=$1
  while [[ $rest == */* ]]; do
    parent+=${rest%%/*} rest=${rest#*/}
    if [[ -L $parent || (-e $parent && ! -d $parent) ]]; then
      [[ $parent == "$obstacle" ]] && return
      [[ $(git cat-file -t "$opening:$parent" 2>/dev/null) == blob ]] && return 1
      obstacle=$parent
      return
    fi
    parent+=/
  done
  obstacle=$1
}

# Applies the patch in $scratch/given to the work tree, all of it or nothing: to its files byte
# by byte, or as in our own patches if .gitattributes sets other line endings, or as one that git
# made against the base commit.
apply() {
  local -a command=(git apply --whitespace=nowarn)
  look bytes && { "${command[@]}" -- "$scratch/given" ||
    "${command[@]}" --recount -- "$scratch/given" 2>/dev/null; } && return
  look patch && "${command[@]}" -- "$scratch/given" 2>/dev/null && return
  look_with_attributes && move_from_base 2>/dev/null && "${command[@]}" -- "$scratch/moved" 2>/dev/null
}

# Makes the patch in $scratch/moved of the one in $scratch/given, which also has the changes of the
# image: the files that it changes become the files of the base commit with the patch.
move_from_base() {
  local -x GIT_INDEX_FILE=$scratch/target
  local mode old path
  git read-tree "$base" && git apply --cached --whitespace=nowarn -- "$scratch/given" &&
    compare "$base" >"$scratch/delta" && git read-tree "$opening" || return
  # The raw form is `:MODE MODE OLD NEW STATUS`, and the path after it.
  while IFS= read -rd '' old && IFS= read -rd '' path; do
    read -r _ mode _ old _ <<<"$old"
    printf '%s %s\t%s\0' "$mode" "$old" "$path"
  done <"$scratch/delta" | git update-index -z --index-info && difference >"$scratch/moved"
}

# Prints which of the paths in $scratch/given there were at the opening, as `ls-tree` does, an empty
# line, and the contents of the files, as `cat-file --batch` does.
originals() {
  look bytes || return
  local paths entries=() objects=() entry head at
  mapfile -d '' -t paths <"$scratch/given"
  for ((at = 0; at < ${#paths[@]}; at += 200)); do
    # Bash gives a wrong status for a process substitution, about once in a thousand times.
    git ls-tree -z "$opening" -- "${paths[@]:at:200}" >"$scratch/entries" || return
    mapfile -d '' -t -O "${#entries[@]}" entries <"$scratch/entries"
  done
  printf '%s\0' "${entries[@]}" ''
  for entry in "${entries[@]}"; do
    head=${entry%%$'\t'*}
    [[ $head != *' blob '* ]] || objects+=("${head##* }")
  done
  ((${#objects[@]} == 0)) || printf '%s\n' "${objects[@]}" | git cat-file --batch
}

# Restores the work tree $want, which is the opening with the patch in $scratch/given. Prints it: see
# `report`. Checkpoints of earlier releases start at the base commit.
restore() {
  look bytes || return
  if [[ ! -d $scratch/start ]]; then
    echo "$scratch was removed, and with it how the repository was at first" >&2
    return 1
  fi
  make_tree "$want" "$scratch/given" "$opening" "$base" && reset_repository || return
  # Makes each folder accessible before it is entered, and removes what git does not know.
  find . -path ./.git -prune -o -type d ! -perm -u=rwx -exec chmod u+rwx -- {} \; -o \
    \( -type p -o -type s \) -exec rm -f -- {} +
  collect || return
  drop_nested
  git read-tree --reset -u "$want" && git clean -ffdq && drop_ignored && force_ignored || return
  mark && files >"$scratch/present_now" || return
  if collect && [[ $tree == "$want" ]]; then
    report "$want"
    return
  fi
  git diff-index --cached --name-status "$want" >&2
  return 1
}

restore_opening() { want=$opening && restore; }

# Creates the objects of the tree $1, which is one of the trees ${@:3} with the patch $2.
make_tree() {
  ! git cat-file -e "$1" 2>/dev/null || return 0
  local -x GIT_INDEX_FILE=$scratch/target
  local from
  for from in "${@:3}"; do
    git read-tree "$from" || continue
    [[ ! -s $2 ]] || git apply --cached --binary --whitespace=nowarn -- "$2" || continue
    [[ $(git write-tree) != "$1" ]] || return 0
  done
  echo "the opening with the delta is not tree $1" >&2
  return 1
}

reset_repository() {
  find .git -mindepth 1 -maxdepth 1 ! -name objects ! -name modules -exec rm -rf -- {} + &&
    cp -a -- "$scratch/start/." .git
}

# Removes nested repositories that the target does not have, which git would keep.
drop_nested() {
  local kind path
  git diff-index --cached -z --raw --no-abbrev --no-renames "$want" -- |
    while IFS= read -rd '' kind && IFS= read -rd '' path; do
      [[ $kind != :160000* && $kind == :??????' 160000 '* ]] && rm -rf -- "$path"
    done
  return 0
}

# Removes ignored files, except files of the image, such as compiled modules.
drop_ignored() {
  git ls-files -zo --directory >"$scratch/others" || return
  cmp -s -- "$scratch/others" "$scratch/present" ||
    comm -z -23 <(sort -z -- "$scratch/others") <(sort -z -- "$scratch/present") |
    xargs -0r rm -rf --
}

# Ignored files of the checkpoint were added by force, which only the user's index records.
force_ignored() {
  git ls-files -zci --exclude-standard >"$scratch/forced" || return
  [[ -s $scratch/forced ]] || return 0
  comm -z -12 <(sort -z -- "$scratch/forced") \
    <(git diff-index --cached -z --name-only --diff-filter=A "$opening" | sort -z) |
    GIT_INDEX_FILE=$root/.git/index GIT_OBJECT_DIRECTORY=$root/.git/objects \
      git update-index -z --add --replace --stdin
}

# Makes the folder $scratch, for its owner alone, if it is missing.
need_scratch() { [[ -d $scratch ]] || mkdir -p -m 700 -- "$scratch"; }

# Keeps the input of a function, which takes $1 bytes in base64.
receive() {
  need_scratch || exit
  if (($1)); then base64 -d; fi >"$scratch/given" || exit
}

# Runs a function. If it fails, runs it once more with only the saved opening.
firmly() {
  need_scratch || exit
  "$@" 2>"$scratch/log" && return
  rm -rf -- "$scratch/bytes" "$scratch/patch" "$scratch/objects"
  "$@" 2>>"$scratch/log" && return
  cat -- "$scratch/log"
  exit 3
}

