#include "runner/parent/record/watched_inputs.h"

#include <algorithm>
#include <utility>

namespace runner {

using Json = nlohmann::ordered_json;

void WatchedInputs::look() {
  if (paths_.empty()) return;
  record_ = Json::object();
  files_.clear();
  for (const auto& [pointer, path] : paths_) {
    InputLook look = look_at_input(path);
    record_[pointer] = std::move(look.record);
    files_.push_back(std::move(look.files));
  }
}

bool WatchedInputs::look_for_made() {
  bool has_come = false;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    Json& record = record_[paths_[i].pointer];
    if (!record.is_null()) continue;
    InputLook look = look_at_input(paths_[i].path);
    if (look.record.is_null()) continue;
    has_come = true;
    record = std::move(look.record);
    record["made"] = true;
    files_[i] = std::move(look.files);
  }
  return has_come;
}

void WatchedInputs::copy_marks(const Json& before) {
  if (!before.is_object()) return;
  for (const auto& [pointer, was] : before.items()) {
    const bool is_made = was.is_object() && was.value("made", Json()) == true;
    if (is_made && record_.contains(pointer) && record_[pointer].is_object())
      record_[pointer]["made"] = true;
  }
}

std::vector<WatchedInputs::Change> WatchedInputs::changes(
    const std::function<bool(const std::string& pointer)>& wanted) const {
  std::vector<Change> changes;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const auto& [pointer, path] = paths_[i];
    const Json& before = record_[pointer];
    if (!before.is_object() || (wanted && !wanted(pointer))) continue;
    const InputLook now = look_at_input(path);
    std::string text = change_of_input(before, now.record);
    if (text.empty()) continue;
    const bool has_only_more =
        now.files.size() > files_[i].size() && std::ranges::includes(now.files, files_[i]);
    changes.push_back({{pointer, std::move(text)}, has_only_more});
  }
  return changes;
}

}  // namespace runner
