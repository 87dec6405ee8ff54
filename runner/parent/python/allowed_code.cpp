#include "runner/parent/python/allowed_code.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

#include "runner/parent/compile/recipe.h"
#include "runner/shared/disk/digest.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using State = TrustedCode::State;

/// Returns the path relative to the current folder if it is below that folder.
std::string shown_code(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  const fs::path below = whole.lexically_relative(fs::current_path());
  return below.empty() || *below.begin() == ".." ? whole.string() : below.string();
}

std::string as_word(const std::string& path) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./+@";
  std::string word = path.starts_with('-') ? "./" + path : path;
  if (word.find_first_not_of(kPlain) == word.npos) return word;
  for (std::size_t at = 0; (at = word.find('\'', at)) != word.npos; at += 4)
    word.replace(at, 1, "'\\''");
  return "'" + word + "'";
}

/// True for a file that Python would import as the module `name`: name.py, name.pyc, or a compiled
/// module such as name.cpython-312-x86_64-linux-gnu.so.
bool is_file_of_module(const std::string& file, const std::string& name) {
  if (!file.starts_with(name + ".")) return false;
  return file == name + ".py" || file == name + ".pyc" || file.ends_with(".so");
}

/// Returns files and packages in `folder` that would be imported as the module `name`.
std::vector<fs::path> code_named(const fs::path& folder, const std::string& name) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::directory_iterator at(folder.empty() ? "." : folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    std::error_code unknown;
    const std::string file = at->path().filename();
    const bool is_code = at->is_directory(unknown)
                             ? file == name && !python_files_below(at->path()).empty()
                             : is_file_of_module(file, name);
    if (is_code) found.push_back((folder / file).lexically_normal());
  }
  std::ranges::sort(found);
  return found;
}

bool is_below(const fs::path& path, const fs::path& folder) {
  const fs::path below = path.lexically_relative(folder);
  return !below.empty() && *below.begin() != "..";
}

/// Checks entries one by one and collects the code that they are allowed to run.
class CodeCheck {
 public:
  CodeCheck(const CodeFolders& folders, const TrustedCode& trusted)
      : folders_(folders), trusted_(trusted) {}

  /// Checks an entry. Returns a SHA-256 of all the files that it specifies; empty if it specifies
  /// none.
  std::string digest_of(const PlacedEntry& placed) {
    placed_ = &placed;
    const std::size_t before = code_.entries.size();
    check();
    std::string digests;
    for (std::size_t i = before; i < code_.entries.size(); ++i) digests += code_.entries[i].sha256;
    return digests.empty() ? "" : sha256(digests);
  }

  Result<PythonCode> result() && {
    if (!errors_.empty()) return std::move(errors_);
    add_what_may_be_imported();
    return std::move(code_);
  }

 private:
  void check() {
    const auto entry = python_entry(placed_->text);
    if (!entry) return fail(entry.errors().front());
    if (!entry->file.empty()) return check_code({folders_.working / with_home(entry->file)}, "");
    const std::string top(entry->top());
    std::vector<fs::path> local;
    for (const fs::path& folder : both_folders())
      std::ranges::copy(code_named(folder, top), std::back_inserter(local));
    if (!local.empty())
      return check_code(
          local, "the local '" + top + "' would be imported instead of the installed module");
    if (!trusted_.trusts_module(top))
      fail({ErrorCode::kUntrustedCode,
            {},
            "",
            "the Python module '" + top + "' was never trusted, so it does not run",
            "read it, then allow it: retort trust " + top});
  }

  /// Returns the folders that are searched for modules, without duplicates.
  std::vector<fs::path> both_folders() const {
    std::vector<fs::path> folders;
    for (const fs::path& folder : {folders_.working, folders_.recipe}) {
      std::error_code error;
      fs::path real = fs::canonical(folder.empty() ? "." : folder, error);
      if (!error && std::ranges::find(folders, real) == folders.end())
        folders.push_back(std::move(real));
    }
    return folders;
  }

  void fail(Diagnostic error) {
    error.pointer = placed_->pointer;
    error.where = placed_->where;
    errors_.push_back(std::move(error));
  }

  /// Checks files and packages (folders). `why` explains why they are used, if that is not obvious.
  void check_code(const std::vector<fs::path>& paths, const std::string& why) {
    std::vector<std::pair<fs::path, std::string>> refused;  // file; what is wrong with it
    std::vector<PythonFile> files;
    for (const fs::path& path : paths) {
      std::error_code error;
      const bool is_package = fs::is_directory(path, error);
      const std::vector<fs::path> all =
          is_package ? python_files_below(path) : std::vector<fs::path>{path};
      for (const fs::path& one : all) {
        auto file = read_code(one);
        if (!file)
          return fail({ErrorCode::kMissingFile,
                       {},
                       "",
                       "the Python file '" + shown_code(one) + "' does not exist or cannot be read",
                       advice_on_path()});
        const State state = trusted_.state(file->real, file->sha256);
        if (state != State::kTrusted)
          refused.emplace_back(one, state == State::kChanged ? "has changed since you trusted it"
                                                             : "was never trusted");
        std::string name = is_package ? one.lexically_relative(path.parent_path()).string()
                                      : one.filename().string();
        files.push_back(
            {std::move(name), file->real, std::move(file->sha256), std::move(file->text)});
      }
    }
    if (!refused.empty()) return refuse(refused, paths, why);
    const bool is_only_one =
        files.size() == 1 && std::ranges::find(code_.entries, placed_->pointer,
                                               &PythonFile::pointer) == code_.entries.end();
    for (PythonFile& file : files) {
      file.pointer = is_only_one ? placed_->pointer
                                 : pointer_to(placed_->pointer, std::exchange(file.pointer, ""));
      code_.files[file.path] = file.sha256;
      code_folders_.push_back(fs::path(file.path).parent_path());
      code_.entries.push_back(std::move(file));
    }
  }

  /// Returns what to do about a file that does not exist.
  std::string advice_on_path() const {
    const std::string text = python_entry(placed_->text)->file;
    if (fs::path(with_home(text)).is_absolute()) return "correct the path";
    fs::path working = fs::absolute(folders_.working.empty() ? "." : folders_.working);
    working = (working / "").lexically_normal().parent_path();
    std::string advice = "correct the path; relative paths start at '" + working.string() + "'";
    const fs::path in_recipe = folders_.recipe / text;
    std::error_code unknown;
    if (!folders_.recipe.empty() && fs::is_regular_file(in_recipe, unknown))
      advice += "; the recipe's folder has one: '" + shown_code(in_recipe) + "'";
    return advice;
  }

  void refuse(const std::vector<std::pair<fs::path, std::string>>& refused,
              const std::vector<fs::path>& paths, const std::string& why) {
    const auto& [file, what] = refused.front();
    const std::size_t others = refused.size() - 1;
    Diagnostic error{ErrorCode::kUntrustedCode,
                     {},
                     "",
                     "the Python file '" + shown_code(file) + "' " + what + ", so it does not run",
                     "read it, then allow it: retort trust"};
    if (others > 0)
      error.message += others == 1 ? "; nor does 1 other file there"
                                   : "; nor do " + std::to_string(others) + " other files there";
    for (const fs::path& path : paths) error.help += " " + as_word(shown_code(path));
    if (!why.empty()) error.notes.push_back({{}, why});
    fail(std::move(error));
  }

  /// Adds the trusted files below the folders from which the code may import.
  void add_what_may_be_imported() {
    if (code_.entries.empty()) return;
    for (const fs::path& folder : both_folders()) code_.folders.push_back(folder);
    std::ranges::copy(code_.folders, std::back_inserter(code_folders_));
    for (const auto& trusted : trusted_.files()) {
      const std::string& path = trusted.first;
      const bool may_be = std::ranges::any_of(
          code_folders_, [&](const fs::path& folder) { return is_below(path, folder); });
      if (!may_be || code_.files.contains(path)) continue;
      const auto file = read_code(path);
      if (file && file->real == path && file->sha256 == trusted.second)
        code_.files[path] = trusted.second;
    }
  }

  const CodeFolders& folders_;
  const TrustedCode& trusted_;
  const PlacedEntry* placed_ = nullptr;
  PythonCode code_;
  std::vector<fs::path> code_folders_;
  Diagnostics errors_;
};

/// Returns one digest for the code of a node's entries, in order; each may be empty.
std::string joined_digest(const std::vector<std::string>& digests) {
  if (digests.size() == 1) return digests.front();
  std::string all;
  for (const std::string& digest : digests) all += digest + "\n";
  return all.size() == digests.size() ? "" : sha256(all);
}

}  // namespace

Diagnostics allow_code(Graph& graph, const std::vector<PlacedEntry>& entries,
                       const CodeFolders& folders, const TrustedCode& trusted) {
  CodeCheck check(folders, trusted);
  std::map<std::string, std::vector<std::string>> digests;  // by node
  for (const PlacedEntry& entry : entries) {
    const std::string digest = check.digest_of(entry);
    for (const std::string& id : entry.nodes) digests[id].push_back(digest);
  }
  for (const auto& [id, of_node] : digests)
    std::ranges::find(graph.nodes, id, &Node::id)->code = joined_digest(of_node);
  auto code = std::move(check).result();
  if (!code) return code.errors();
  graph.python = *std::move(code);
  return {};
}

std::string trust_command(const fs::path& path) {
  return "retort trust " + as_word(shown_code(path));
}

}  // namespace runner
