# Functions that read the files of a work tree before and after a patch. `eval.applied_tree` sets root,
# scratch, most and others, and calls one function. Needs bash, git 2.20, coreutils, find, xargs.
#
# $scratch is a separate git folder: no setting, hook, attribute or ignored name of the repository
# decides what is read. In it are states of the tree: NAME has the id, NAME.git what belongs to git.

set -o pipefail
unset "${!GIT_@}"
export LC_ALL=C GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1
export GIT_NO_REPLACE_OBJECTS=1 GIT_DIR=$scratch GIT_WORK_TREE=$root
cd -- "$root" || exit

# Saves the state `opened`.
begin() {
  rm -rf -- "$scratch" && mkdir -p -- "$scratch"/{info,objects/info,refs} || return
  printf '%s\n' '[core]' 'repositoryFormatVersion = 0' 'fileMode = true' 'symlinks = true' \
    'ignoreCase = false' 'autocrlf = false' 'safecrlf = false' 'fsmonitor = false' 'fsync = none' \
    'protectHFS = false' 'protectNTFS = false' 'compression = 1' '[gc]' 'auto = 0' \
    >"$scratch/config"
  echo '* -text -ident -filter !eol !working-tree-encoding' >"$scratch/info/attributes"
  echo 'ref: refs/heads/none' >"$scratch/HEAD"
  begin_at_head 2>/dev/null || rm -f -- "$scratch/index" "$scratch/objects/info/alternates"
  save opened
}

# Takes the objects of the repository, so that only files which differ from its commit are stored.
begin_at_head() {
  local head
  head=$(git --git-dir=.git rev-parse -q --verify 'HEAD^{tree}') &&
    echo "$root/.git/objects" >"$scratch/objects/info/alternates" && git read-tree "$head" &&
    { git update-index -q --refresh >/dev/null || :; } &&
    git ls-files -zs | { grep -z '^160000 ' || :; } | cut -zf 2 |
    git update-index -z --force-remove --stdin
}

# Saves the current state under the name $1: every file and link, ignored or not.
save() {
  find . -name .git -prune -o \( -type f -o -type l \) -printf '%P\0' | sort -z >"$scratch/files" &&
    git ls-files -z | sort -z | comm -z -23 - "$scratch/files" |
    git update-index -z --force-remove --stdin &&
    git update-index -z --add --replace --stdin <"$scratch/files" &&
    git write-tree --missing-ok >"$scratch/$1" && hash_git_files >"$scratch/$1.git"
}

# Every path that belongs to git, in nested repositories too, with its content. The objects and the
# index are left out: applying a patch writes them.
hash_git_files() {
  { find_git_files -type f -print0 | xargs -0r sha256sum -z -- &&
    find_git_files ! -type d ! -type f -printf '%y%l  %p\0'; } | sort -z
}

find_git_files() {
  find . \( -path ./.git/index -o -path '*/.git/*objects/pack' \
    -o -path '*/.git/*objects/[0-9a-f][0-9a-f]' \) -prune -o \
    \( -path '*/.git/*' -o -name .git \) "$@"
}

# Saves the state `now`. Prints, as a line of base64 each: the changes since `opened` and since `before`
# in git's raw form, the paths of git's files that differ, the ids of changed files that were there at
# the opening, and the contents of all changed files as `cat-file --batch` does. Exits with 3 if these
# are more than $most bytes.
print_changes() {
  save now || return
  local opened before now size total=0
  read -r opened <"$scratch/opened" && read -r before <"$scratch/before" &&
    read -r now <"$scratch/now" && cd -- "$scratch" &&
    compare "$opened" "$now" >since_opened && compare "$before" "$now" >since_before &&
    comm -z -3 opened.git now.git >of_git && list_ids >ids || return
  while read -r size; do ((total += size)); done < <(
    git cat-file --batch-check='%(objectsize)' <ids
  )
  ((total <= most)) || return 3
  git ls-tree -r "$opened" | cut -f 1 | cut -d ' ' -f 3 | sort -u | comm -12 - ids >copied || return
  local file
  for file in since_opened since_before of_git copied; do
    base64 -w 0 "$file" && echo || return
  done
  git cat-file --batch <ids | base64 -w 0 && echo
}

compare() { git diff-tree -r -z --raw --no-abbrev --no-renames "$1" "$2"; }

list_ids() {
  tr '\0' '\n' <since_opened | { grep -E '^:[0-7]{6} [0-7]{6} [0-9a-f]{40} [0-9a-f]{40} [A-Z]$' || :; } |
    cut -d ' ' -f 3,4 | tr ' ' '\n' | { grep -vx '0*' || :; } | sort -u
}

# Prints which of the modules $@ are installed below $places, by number from 0. On the host it is the
# environment of the interpreter that commands find.
print_installed() {
  local folder number modules=("$@")
  [[ $places ]] || places=$(python -IS -c 'import sys; print(sys.prefix)') || return
  while IFS= read -rd '' folder; do
    for number in "${!modules[@]}"; do
      is_there "$folder/${modules[number]}" && echo "$number"
    done
  done < <(find "$places" \( -path /proc -o -path /sys -o -path /dev -o -path "$root" \) -prune -o \
    -type d \( -name site-packages -o -name dist-packages \) -prune -print0 2>/dev/null)
  true
}

is_there() { [[ -e $1 || -e $1.py ]] || compgen -G "$1.*.so" >/dev/null; }

# Prints in which of the folders $@ Python may look for modules, by number from 0: the root, and folders
# of tests or of packages that are not part of a package.
print_searched() {
  local number folders=("$@")
  for number in "${!folders[@]}"; do
    [[ ${folders[number]} == . ]] || is_searched "${folders[number]}" && echo "$number"
  done
  true
}

is_searched() (
  cd -- "$1" && [[ ! -e __init__.py ]] || return
  [[ $1 == src || $1 == lib ]] || compgen -G '*/__init__.py' || compgen -G 'test_*.py' ||
    compgen -G '*_test.py' || compgen -G conftest.py
) >/dev/null 2>&1
