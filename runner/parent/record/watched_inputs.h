#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/record/input_record.h"

namespace runner {

/// Watches the inputs of a run in progress: records their state when the run begins and detects how
/// they have changed since.
class WatchedInputs {
 public:
  /// Does not inspect the inputs; see look().
  explicit WatchedInputs(std::vector<InputPath> paths) : paths_(std::move(paths)) {}

  /// Inspects all inputs; must be called when the run begins.
  void look();
  /// Inspects the inputs that did not exist before and marks new ones as created by the run
  /// ("made": true); they may then be missing when the run is repeated. Returns true if there are
  /// any new ones.
  bool look_for_made();
  /// Returns {"/data/root": …} in the form of input_record(); null before look(), or without
  /// inputs.
  const nlohmann::ordered_json& record() const { return record_; }
  /// Copies the "made" marks from `before`, an earlier record of the same run.
  void copy_marks(const nlohmann::ordered_json& before);

  /// Marks an input as changed during the run ("changed": true); later inspections do not undo
  /// this.
  void mark_changed(const std::string& pointer) { record_[pointer]["changed"] = true; }

  struct Change {
    InputChange change;
    bool has_only_more = false;  ///< files were added, but the earlier ones are unchanged
  };
  /// Returns the changes to the inputs for which `wanted` is true; if `wanted` is empty, to all
  /// inputs.
  std::vector<Change> changes(
      const std::function<bool(const std::string& pointer)>& wanted = {}) const;

 private:
  std::vector<InputPath> paths_;
  nlohmann::ordered_json record_;
  std::vector<std::vector<std::uint64_t>> files_;  // by input: InputLook::files
};

}  // namespace runner
