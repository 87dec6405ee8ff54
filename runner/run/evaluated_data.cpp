#include "runner/run/evaluated_data.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

namespace runner {
namespace {

namespace fs = std::filesystem;

constexpr std::array kPartFolders = {"train", "validation", "test"};

const std::string* root_of(const Value* stage) {
  const Value* root = stage ? stage->find("root") : nullptr;
  return root ? root->text() : nullptr;
}

bool is_same_folder(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return a.lexically_normal() == b.lexically_normal() || fs::equivalent(a, b, error);
}

bool has_part_folders(const fs::path& root) {
  return std::ranges::any_of(kPartFolders, [&](const char* part) {
    std::error_code error;
    return fs::is_directory(root / part, error);
  });
}

/// Was the value, or any below it, written in one of these overrides?
bool is_written(const Value& value, std::span<const std::string> overrides) {
  if (value.where.source && std::ranges::find(overrides, value.where.source->contents) != overrides.end()) return true;
  if (!value.map()) return false;
  return std::ranges::any_of(*value.map(), [&](const Entry& entry) { return is_written(entry.value, overrides); });
}

}  // namespace

EvaluatedData data_to_evaluate(const Value& before, const Value& after, std::span<const std::string> written,
                               const fs::path& working_folder) {
  EvaluatedData result;
  for (const auto& [key, where, stage, type] : *after.map()) {
    const Value* split = stage.find("split");
    const std::string* root = root_of(&stage);
    if (!split || !split->find("test") || !root) continue;
    const std::string* trained_on = root_of(before.find(key));
    const std::string in_quotes = "'" + *root + "'";
    if (has_part_folders(working_folder / *root)) {
      result.lines.push_back(key + ": the folder 'test' of " + in_quotes + " is evaluated");
    } else if ((trained_on && is_same_folder(working_folder / *trained_on, working_folder / *root)) ||
               is_written(*split, written)) {
      result.lines.push_back(key + ": the test share of " + in_quotes + " is evaluated: " + key +
                             ".split.test=" + describe(nearest(*split, "/test")));
    } else {
      const std::string all = key + ".split={train: 0, validation: 0, test: 1}";
      result.lines.push_back(key + ": all of " + in_quotes + " is evaluated, since the training used another folder: " +
                             all + "; for a share of it set " + key + ".split.test");
      result.overrides.push_back(all);
    }
  }
  return result;
}

}  // namespace runner
