# Reads and writes the work tree regardless of anything that its user may have done to git: the
# index, settings, hooks and branches of the repository are ignored. For
# `agent.workspaces.repository`, which sets root, scratch, base, opening, files_digest and want,
# and calls one function. Needs bash, git 2.20, coreutils, find.
#
# In $scratch  start    .git without its objects, as it was when the workspace was opened
#              present  untracked files at the opening, ignored or not
#              files    all files at the opening, sorted
#              opening  the patch from the base commit to the tree at the opening
#              known    the ids of the base commit and of that tree, and the digest of `files`
#              bytes    a git folder for checkpoints, which takes files byte by byte
#              patch    one for patches, with the line endings that .gitattributes sets
#              objects  the objects that those two write; all others are in the repository

declare -A size
left_out=
unset "${!GIT_@}"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1
export GIT_NO_REPLACE_OBJECTS=1 LC_ALL=C
cd -- "$root" || exit

# Saves the state at the opening, once. Prints its ids, and the time if it was saved just now, or
# nothing without a repository.
begin() {
  if [[ ! $(begun) ]]; then
    local id
    id=$(git -c safe.directory='*' rev-parse -q --verify "$base^{commit}" 2>/dev/null) || return 0
    [[ -d .git/objects ]] || return 0
    base=$id
    mkdir -p -m 700 -- "$scratch" && copy_repository .git "$scratch/start" || return
    look bytes && git read-tree "$base" && git ls-files -zo --directory >"$scratch/present" &&
      files >"$scratch/files" && stamp && collect 2>"$scratch/log" && opening=$(git write-tree) &&
      difference >"$scratch/opening" || return
    files_digest=$(digest_of_files) &&
      printf '%s %s %s\n' "$base" "$opening" "$files_digest" >"$scratch/known" &&
      printf '%s %s %s %s\n' "$base" "$opening" "$files_digest" "$stamped"
    return
  fi
  cat -- "$scratch/known"
}

begun() { [[ ! -d $scratch/start || ! -f $scratch/known ]] || cat -- "$scratch/known"; }

# Prints everything except folders, also inside nested repositories, which git ignores. The
# arguments are what else `find` does with each of them.
files() { find . -name .git -prune -o ! -type d -printf '%P\0' "$@" | sort -z; }

digest_of_files() {
  local digest
  read -r digest _ < <(sha256sum <"$scratch/files")
  printf '%s\n' "$digest"
}

copy_repository() {
  mkdir -p -- "$2" || return
  find "$1" -mindepth 1 -maxdepth 1 ! -name objects ! -name modules \
    -exec cp -a -t "$2" -- {} +
}

# Makes git read the work tree through the git folder of that name.
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
}

# Updates the index: the current files of the base commit, all new files that are not ignored,
# and ignored files that were added by force to the user's own index.
#
# The index is reused, because git then reads only changed files. It has to be corrected if the
# rules changed: an entry that is now ignored, or a file of the base that was restored.
collect() {
  [[ ! -e $GIT_DIR/index.lock ]] || rm -f -- "$GIT_DIR/index.lock"
  [[ -f $GIT_DIR/index ]] || git read-tree "$base" || return
  add_all || return
  list_exceptions
  ! rules_changed && ! came_back && return
  git read-tree -m -i "$base" && add_all || return
  readable <"$GIT_DIR/forced" | git update-index -z --add --replace --stdin || return
  list_exceptions
  exceptions >"$GIT_DIR/settled"
}

# Leaves out unreadable files and repositories without a commit, and then sets left_out.
add_all() {
  git add -A --ignore-errors || { left_out=$? && ((left_out == 1)); }
}

# Lists ignored files in the index, those in the user's index, and missing files of the base.
list_exceptions() {
  git ls-files -zci --exclude-standard >"$GIT_DIR/ignored" &
  GIT_INDEX_FILE=$root/.git/index git ls-files -zci --exclude-standard >"$GIT_DIR/forced" &
  git diff-index --cached -z --name-only --diff-filter=D "$base" >"$GIT_DIR/missing"
  wait
}

exceptions() {
  [[ ! -s $GIT_DIR/ignored && ! -s $GIT_DIR/forced ]] ||
    { cat -- "$GIT_DIR/ignored" && printf '/\0' && cat -- "$GIT_DIR/forced"; }
}

rules_changed() {
  [[ -s $GIT_DIR/ignored || -s $GIT_DIR/forced || -s $GIT_DIR/settled ]] &&
    ! exceptions | cmp -s -- - "$GIT_DIR/settled"
}

came_back() {
  local path
  [[ -s $GIT_DIR/missing ]] && readable <"$GIT_DIR/missing" | read -rd '' path
}

readable() {
  local path
  while IFS= read -rd '' path; do
    [[ -L $path || (-f $path && -r $path) ]] && printf '%s\0' "$path"
  done
  return 0
}

# Sets stamped, the time after which commands find changes. It is set back by more than the kernel's
# clock tick, and before the work tree is read. A change in the same tick, or meanwhile, counts as
# a change the next time.
stamp() {
  local t=${EPOCHREALTIME-} # bash 5 has it; `date` is another process
  [[ $t ]] && t=${t/./} || t=$(($(date +%s%N) / 1000))
  ((t -= 20000))
  stamped=$((t / 1000000)).$(printf %06d $((t % 1000000)))
}

# Prints the time, the id of the tree and the sizes of what follows: the changes since the opening
# if $1, and, unless it is the tree $want, the changes since that tree and the difference from the base
# commit. What is unknown, or larger than $most, has the size -1.
survey() {
  stamp
  look bytes || return
  if (($1)); then open_folders || return; fi
  collect && local tree && tree=$(git write-tree) || return
  local -a found=()
  if (($1)); then list_changes && found+=("$scratch/changes") || return; fi
  if [[ $tree != "$want" ]]; then
    # The tree $want is unknown if $scratch was destroyed since.
    [[ $want ]] && compare "$want" >"$scratch/since" && found+=("$scratch/since")
    difference >"$scratch/delta" && found+=("$scratch/delta") || return
  fi
  measure "${found[@]}" || return
  ((${size[delta]} <= most)) || unset "size[delta]" "found[-1]"
  printf '%s %s' "$stamped" "$tree"
  printf ' %d' "${size[changes]:--1}" "${size[since]:--1}" "${size[delta]:--1}"
  echo
  ((${#found[@]} == 0)) || cat -- "${found[@]}"
}

# Sets size, the sizes of files by their names.
measure() {
  local bytes name
  size=([delta]=-1)
  (($#)) || return 0
  while read -r bytes name; do size[${name##*/}]=$bytes; done < <(stat -c '%s %n' -- "$@")
}

# Treats the current ignored files as if they had existed at the opening.
settle() { look bytes && collect && git ls-files -zo --directory >"$scratch/present"; }

checkpoint() {
  look bytes && collect && git write-tree >"$scratch/delta" && difference >>"$scratch/delta" &&
    cat -- "$scratch/delta"
}

# Prints the difference from the base commit. $scratch/given has pathspecs, each ending in NUL.
patch() {
  local -a specs
  mapfile -d '' specs <"$scratch/given"
  look patch && collect && difference "${specs[@]}" >"$scratch/delta" && cat -- "$scratch/delta"
}

# Prints the patch from the tree $want, which a checkpoint or a restored tree left among the objects.
patch_since() {
  look bytes && git cat-file -e "$want" && collect && base=$want difference >"$scratch/delta" &&
    cat -- "$scratch/delta"
}

difference() {
  git diff --cached --binary --full-index --no-color --no-renames --no-ext-diff --no-textconv \
    "$base" -- "$@"
}

# Writes the changes since the opening to $scratch/changes: status and path in turn, each ending in
# NUL. New files count even if git would ignore them, and a pipe in place of a file is a change. The
# ids of contents are left out where git could not read a file, for it keeps the last one.
list_changes() {
  local -a form=(--raw --no-abbrev)
  [[ ! $left_out ]] || form=(--name-status --diff-filter=a)
  differences "$opening" "${form[@]}" >"$scratch/changes" ||
    { know_opening && differences "$opening" "${form[@]}" >"$scratch/changes"; } || return
  local before=$scratch/files odd=$scratch/odd
  # Commands in the workspace can change the list of files at the opening. A changed list is not
  # used: then only the files in git's tree count as present at the opening.
  if [[ $(digest_of_files) != "$files_digest" ]]; then
    before=$scratch/tracked
    git ls-tree -rz --name-only "$opening" | sort -z >"$before"
  fi
  files ! -type f ! -type l -fprintf "$odd" '%P\0' >"$scratch/present_now"
  comm -z -23 -- "$scratch/present_now" "$before" | sed -z 's/^/A\x00/' >>"$scratch/changes"
  [[ ! -s $odd ]] ||
    comm -z -12 -- <(sort -z -- "$odd") "$before" | sed -z 's/^/T\x00/' >>"$scratch/changes"
}

# Prints the differences from the tree $want among tracked and unignored files. The tree is
# unknown if $scratch was destroyed since.
changes_since() {
  look bytes || return
  if ! git cat-file -e "$want" 2>/dev/null; then
    know_opening && want=$opening || return
  fi
  collect && compare "$want" >"$scratch/delta" && cat -- "$scratch/delta"
}

compare() { differences "$1" --name-status; }

differences() {
  git diff-index --cached -z --no-renames --ignore-submodules=all "${@:2}" "$1" --
}

# The objects of the opening's tree may be lost with those of $scratch.
know_opening() {
  git cat-file -e "$opening" 2>/dev/null || aim "$opening" "$scratch/opening"
}

# Restores the paths in $scratch/given, each ending in NUL, to their state at the opening.
put_back() {
  look bytes && know_opening || return
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
# by byte, or as in our own patches if .gitattributes sets other line endings.
apply() {
  local -a command=(git apply --whitespace=nowarn)
  look bytes && { "${command[@]}" -- "$scratch/given" ||
    "${command[@]}" --recount -- "$scratch/given" 2>/dev/null; } && return
  look patch && "${command[@]}" -- "$scratch/given" 2>/dev/null
}

# Prints the content of the path $name at the opening. Exits with 44 if there is no such file.
original() {
  look bytes && know_opening || return
  git cat-file -e "$opening:$name" 2>/dev/null || exit 44
  git cat-file blob "$opening:$name"
}

# Restores the work tree $want, which is the base commit with the patch in $scratch/given. Prints
# the time, and the changes since the opening if $1.
restore() {
  look bytes || return
  if [[ ! -d $scratch/start ]]; then
    echo "$scratch was removed, and with it how the repository was at first" >&2
    return 1
  fi
  aim "$want" "$scratch/given" && reset_repository || return
  open_folders
  find . -path ./.git -prune -o \( -type p -o -type s \) -exec rm -f -- {} +
  collect || return
  drop_nested
  git read-tree --reset -u "$want" && git clean -ffdq && drop_ignored && force_ignored || return
  stamp
  if collect && [[ $(git write-tree) == "$want" ]]; then
    echo "$stamped"
    ((!$1)) || { list_changes && cat -- "$scratch/changes"; }
    return
  fi
  git diff-index --cached --name-status "$want" >&2
  return 1
}

restore_opening() {
  cp -- "$scratch/opening" "$scratch/given" && want=$opening && restore "$1"
}

# Makes each folder accessible before find enters it.
open_folders() {
  find . -path ./.git -prune -o -type d ! -perm -u=rwx -exec chmod u+rwx -- {} \;
}

# Creates the objects of the tree $1, which is the base commit with the patch $2.
aim() {
  local -x GIT_INDEX_FILE=$scratch/target
  git read-tree "$base" || return
  [[ ! -s $2 ]] || git apply --cached --binary --whitespace=nowarn -- "$2" || return
  [[ $(git write-tree) == "$1" ]] && return
  echo "the base commit with the delta is not tree $1" >&2
  return 1
}

reset_repository() {
  find .git -mindepth 1 -maxdepth 1 ! -name objects ! -name modules -exec rm -rf -- {} + &&
    copy_repository "$scratch/start" .git
}

# Removes nested repositories that the target does not have, which git would keep.
drop_nested() {
  comm -z -23 <(nested) <(GIT_INDEX_FILE=$scratch/target nested) | xargs -0r rm -rf --
}

nested() { git ls-files -zs | grep -z '^160000' | cut -z -f2- | sort -z; }

# Removes ignored files, except those of the image, such as compiled modules.
drop_ignored() {
  comm -z -23 <(git ls-files -zo --directory | sort -z) <(sort -z -- "$scratch/present") |
    xargs -0r rm -rf --
}

# Ignored files of the checkpoint were added by force, which only the user's index records.
force_ignored() {
  comm -z -12 <(git ls-files -zci --exclude-standard | sort -z) \
    <(git diff-index --cached -z --name-only --diff-filter=A "$base" | sort -z) |
    GIT_INDEX_FILE=$root/.git/index GIT_OBJECT_DIRECTORY=$root/.git/objects \
      git update-index -z --add --replace --stdin
}

# Keeps the input of a function.
receive() {
  mkdir -p -m 700 -- "$scratch" && base64 -d >"$scratch/given" || exit
}

# Runs a function. If it fails, runs it once more with only the saved opening.
firmly() {
  [[ -d $scratch ]] || mkdir -p -m 700 -- "$scratch" || exit
  "$@" 2>"$scratch/log" && return
  rm -rf -- "$scratch/bytes" "$scratch/patch" "$scratch/objects"
  "$@" 2>"$scratch/log" && return
  cat -- "$scratch/log"
  exit 3
}

