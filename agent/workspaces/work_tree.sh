# What the work tree holds, seen past everything that its user may have done to git: its index,
# settings, hooks and branches are not looked at. For `agent.workspaces.repository`, which sets
# root, scratch, base and want, and calls one function. Needs bash, git 2.20, coreutils, find.
#
# In $scratch  start    .git without its objects, as it was when the workspace was opened
#              present  what was not tracked then, ignored or not
#              bytes    a git folder for checkpoints, which takes files byte by byte
#              patch    one for patches, with the line endings that .gitattributes asks for
#              objects  what those two write; the rest they find in the repository
#              base     the id of the base commit

unset "${!GIT_@}"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1
export GIT_NO_REPLACE_OBJECTS=1 LC_ALL=C
cd -- "$root" || exit

# Remembers the start, once. Prints the base commit's id, or nothing without a repository.
begin() {
  if [[ ! $(begun) ]]; then
    local id
    id=$(git -c safe.directory='*' rev-parse -q --verify "$base^{commit}" 2>/dev/null) || return 0
    [[ -d .git/objects ]] || return 0
    base=$id
    mkdir -p -m 700 -- "$scratch" && copy_repository .git "$scratch/start" || return
    look bytes && git read-tree "$base" && git ls-files -zo --directory >"$scratch/present" ||
      return
    printf '%s\n' "$id" >"$scratch/base"
  fi
  cat -- "$scratch/base"
}

begun() { [[ ! -d $scratch/start || ! -f $scratch/base ]] || cat -- "$scratch/base"; }

copy_repository() {
  mkdir -p -- "$2" || return
  find "$1" -mindepth 1 -maxdepth 1 ! -name objects ! -name modules \
    -exec cp -a -t "$2" -- {} +
}

# Makes git look at the work tree through the folder of that name.
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

# Brings the index up to date: the base commit's files as they are now, everything new that is
# not ignored, and what is ignored but was added by force to the user's own index.
#
# The index is kept, because git then reads only files that changed. So it has to be put right
# where the rules changed: an entry that is ignored now, a file of the base that came back.
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

# What cannot be read, or is a repository without a commit, is left out.
add_all() {
  git add -A --ignore-errors || (($? == 1))
}

# What is in the index although it is ignored, in the user's too, and what is missing of the base.
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

tree() { look bytes && collect && git write-tree; }

checkpoint() {
  look bytes && collect && git write-tree >"$scratch/delta" && difference >>"$scratch/delta" &&
    cat -- "$scratch/delta"
}

patch() {
  look patch && collect && difference >"$scratch/delta" && cat -- "$scratch/delta"
}

difference() {
  git diff --cached --binary --full-index --no-color --no-renames --no-ext-diff --no-textconv \
    "$base" --
}

# Makes the work tree $want, which is the base commit with the patch in $scratch/given.
restore() {
  look bytes || return
  if [[ ! -d $scratch/start ]]; then
    echo "$scratch was removed, and with it how the repository was at first" >&2
    return 1
  fi
  aim && reset_repository || return
  # A folder is opened before find looks into it.
  find . -path ./.git -prune -o -type d ! -perm -u=rwx -exec chmod u+rwx -- {} \;
  find . -path ./.git -prune -o \( -type p -o -type s \) -exec rm -f -- {} +
  collect || return
  drop_nested
  git read-tree --reset -u "$want" && git clean -ffdq && drop_ignored && force_ignored || return
  if collect && [[ $(git write-tree) == "$want" ]]; then return; fi
  git diff-index --cached --name-status "$want" >&2
  return 1
}

aim() {
  local -x GIT_INDEX_FILE=$scratch/target
  git read-tree "$base" || return
  [[ ! -s $scratch/given ]] ||
    git apply --cached --binary --whitespace=nowarn -- "$scratch/given" || return
  [[ $(git write-tree) == "$want" ]] && return
  echo "the base commit with the delta is not tree $want" >&2
  return 1
}

reset_repository() {
  find .git -mindepth 1 -maxdepth 1 ! -name objects ! -name modules -exec rm -rf -- {} + &&
    copy_repository "$scratch/start" .git
}

# Repositories inside this one that the target does not have: git would leave them.
drop_nested() {
  comm -z -23 <(nested) <(GIT_INDEX_FILE=$scratch/target nested) | xargs -0r rm -rf --
}

nested() { git ls-files -zs | grep -z '^160000' | cut -z -f2- | sort -z; }

# What the image brought along, such as compiled modules, stays.
drop_ignored() {
  comm -z -23 <(git ls-files -zo --directory | sort -z) <(sort -z -- "$scratch/present") |
    xargs -0r rm -rf --
}

# Ignored files of the checkpoint were added by force once; only the user's index says so.
force_ignored() {
  comm -z -12 <(git ls-files -zci --exclude-standard | sort -z) \
    <(git diff-index --cached -z --name-only --diff-filter=A "$base" | sort -z) |
    GIT_INDEX_FILE=$root/.git/index GIT_OBJECT_DIRECTORY=$root/.git/objects \
      git update-index -z --add --replace --stdin
}

# Runs a function; where it fails, once more with nothing remembered but the start.
firmly() {
  [[ -d $scratch ]] || mkdir -p -m 700 -- "$scratch" || exit
  "$@" 2>"$scratch/log" && return
  rm -rf -- "$scratch/bytes" "$scratch/patch" "$scratch/objects"
  "$@" 2>"$scratch/log" && return
  cat -- "$scratch/log"
  exit 3
}

