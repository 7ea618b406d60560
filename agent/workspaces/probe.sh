# Finds what keeps a workspace from being worked in, before any work starts. `probe` is called after
# `enter` of `work_tree.sh`, prints one line and exits with 45 if there is such a thing. $tools is
# `fit` if the tools of the place are known to be.

oldest_git=2.20
needed=(git find grep xargs cmp cp rm cat mkdir stat sort comm base64)

unfit() {
  printf '%s\n' "$1"
  exit 45
}

probe() {
  # A workspace that was saved as an image was probed when it was opened.
  [[ ! -d $scratch/start ]] || return 0
  [[ $tools == fit ]] || probe_tools
  probe_repository
  ((EUID == 0)) || probe_ownership
  [[ -w . ]] || may_not "$root"
  { need_scratch && [[ -w $scratch ]]; } 2>/dev/null ||
    unfit "user $(whoami_or_id) may not make the folder $scratch: make its parent writable"
}

probe_tools() {
  local name version missing=()
  ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)) ||
    unfit "its bash is $BASH_VERSION: install 4.4 or newer"
  for name in "${needed[@]}"; do type -P "$name" >/dev/null || missing+=("$name"); done
  ((${#missing[@]} == 0)) || unfit "it has no ${missing[*]} on PATH: install what is missing"
  version=$(git version 2>&1)
  [[ $version =~ ^git\ version\ ([0-9]+)\.([0-9]+) ]] || unfit "its git does not run: ${version%%$'\n'*}"
  ((BASH_REMATCH[1] * 1000 + BASH_REMATCH[2] >= ${oldest_git/./0})) ||
    unfit "its git is ${BASH_REMATCH[1]}.${BASH_REMATCH[2]}: install $oldest_git or newer"
  find . -maxdepth 0 -printf '' 2>/dev/null && comm -z /dev/null /dev/null 2>/dev/null ||
    unfit "its find or comm is not from GNU: install findutils and coreutils"
}

probe_repository() {
  [[ -d .git/objects ]] || unfit "$root is not a git repository: put one there, with its base commit"
  git --git-dir=.git cat-file -e "$base^{commit}" 2>/dev/null ||
    unfit "the repository in $root has no commit $base: name its base commit in the row"
}

# Checks that the user can change all files of the base commit and all that git keeps, as root can.
probe_ownership() {
  local path
  [[ -w .git ]] || may_not "$root/.git"
  path=$(find .git -path .git/objects -prune -o -type d ! -writable -print -quit)
  [[ ! $path ]] || may_not "$root/$path"
  while IFS= read -rd '' path; do
    [[ -w $path || -O $path || -L $path || ! -e $path ]] || may_not "$root/$path"
  done < <(git --git-dir=.git ls-tree -rtz --name-only "$base")
}

may_not() {
  unfit "user $(whoami_or_id) may not write $1: give it that with chown, or set another USER"
}

whoami_or_id() { id -un 2>/dev/null || echo "$EUID"; }
