#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/record/input_record.h"

namespace runner {

/// The inputs of a run in progress: their state when it began, for its record, and how they
/// have changed since.
class WatchedInputs {
 public:
  /// Inspects none of them yet.
  explicit WatchedInputs(std::vector<InputPath> paths) : paths_(std::move(paths)) {}

  /// Inspects all of them, as the run begins.
  void look();
  /// Inspects those that did not exist, and marks new ones as made by the run ("made": true), so
  /// that they may be missing when the run is repeated. True if any is new.
  bool look_for_made();
  /// {"/data/root": …}, as input_record() returns it; null before look(), and if there are no
  /// inputs.
  const nlohmann::ordered_json& record() const { return record_; }
  /// Copies the marks "made by the run" from `before`, an earlier record of the same run.
  void copy_marks(const nlohmann::ordered_json& before);

  /// Marks an input as changed during the run ("changed": true); a later inspection cannot undo
  /// this.
  void mark_changed(const std::string& pointer) { record_[pointer]["changed"] = true; }

  struct Change {
    InputChange change;
    bool has_only_more = false;  ///< files were added, and the earlier ones are unchanged
  };
  /// The changes of the inputs in `wanted`; empty: of all.
  std::vector<Change> changes(
      const std::function<bool(const std::string& pointer)>& wanted = {}) const;

 private:
  std::vector<InputPath> paths_;
  nlohmann::ordered_json record_;
  std::vector<std::vector<std::uint64_t>> files_;  // by input: InputLook::files
};

}  // namespace runner
