#include "runner/parent/compile/home_paths.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "runner/parent/schema/schema.h"
#include "runner/parent/schema/schema_choices.h"
#include "runner/shared/text/join.h"

namespace runner {
namespace {

bool begins_with_home(std::string_view path) { return path == "~" || path.starts_with("~/"); }

/// What a shell would put something else in place of: "~anna", "$HOME"; empty: nothing.
std::string_view shell_word(std::string_view path) {
  const std::string_view first = path.substr(0, path.find('/'));
  if (first.size() < 2) return "";
  const auto is_name = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  return first[0] == '~' || (first[0] == '$' && is_name(first[1])) ? first : "";
}

class HomePaths {
 public:
  HomePaths(const Value& recipe, const SchemaSet& schemas) : recipe_(recipe), schemas_(schemas) {}

  void settle(Value& value) {
    if (auto* map = value.map()) {
      for (Entry& entry : *map) settle_below(entry.key, entry.value);
    } else if (auto* list = value.list()) {
      for (std::size_t i = 0; i < list->size(); ++i) settle_below(std::to_string(i), (*list)[i]);
    } else if (std::string* const text = std::get_if<std::string>(&value.data)) {
      settle_text(*text, value.where);
    }
  }
  Diagnostics take_errors() { return std::move(errors_); }

 private:
  void settle_below(const std::string& key, Value& value) {
    path_.push_back(key);
    settle(value);
    path_.pop_back();
  }

  void settle_text(std::string& text, const Location& where) {
    const bool has_mark = text.find('~') != text.npos || text.starts_with('$');
    if (!has_mark || !schemas_.choices(recipe_, path_).is_path) return;
    if (begins_with_home(text)) {
      std::string whole = with_home(text);
      if (whole == text) fail(where, "'" + text + "' begins with the home folder, and HOME is not set", "set HOME");
      text = std::move(whole);
    } else if (const std::string_view word = shell_word(text); !word.empty()) {
      fail(where, "'" + text + "' begins with '" + std::string(word) + "', which only a shell understands",
           word[0] == '$' ? "write ~/ for the home folder, or ${oc.env:" + std::string(word.substr(1)) + "}"
                          : "write the folder's whole path, or ./" + text + " for one that is called so");
    } else if (is_made() && has_home_inside(text)) {
      fail(where, "'" + text + "' would make a folder called '~'", "begin it with ~/ for the home folder");
    }
  }

  bool is_made() const { return path_.size() == 2 && (path_[0] == "run" || path_[0] == "sweep") && path_[1] == "dir"; }

  static bool has_home_inside(const std::string& text) {
    const std::filesystem::path path(text);
    return std::find(path.begin(), path.end(), "~") != path.end();
  }

  void fail(const Location& where, std::string message, std::string help) {
    errors_.push_back({ErrorCode::kOptionConflict, where, "/" + join(path_, "/"), std::move(message), std::move(help)});
  }

  const Value& recipe_;
  const SchemaSet& schemas_;
  std::vector<std::string> path_;
  Diagnostics errors_;
};

}  // namespace

std::string with_home(const std::string& path) {
  const char* const home = std::getenv("HOME");
  if (!begins_with_home(path) || !home || !*home) return path;
  std::string_view folder = home;
  while (folder.size() > 1 && folder.ends_with('/')) folder.remove_suffix(1);
  return std::string(folder) + path.substr(1);
}

Diagnostics settle_home(Value& resolved, const SchemaSet& schemas) {
  const Value before = resolved;
  HomePaths paths(before, schemas);
  paths.settle(resolved);
  return paths.take_errors();
}

}  // namespace runner
