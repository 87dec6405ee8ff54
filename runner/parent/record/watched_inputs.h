#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/record/input_record.h"

namespace runner {

/// The inputs of a run that is at work: how they were when it began, for its record, and what has
/// become of them since.
class WatchedInputs {
 public:
  /// Looks at none of them yet.
  explicit WatchedInputs(std::vector<InputPath> paths) : paths_(std::move(paths)) {}

  /// Looks at all of them: the run begins.
  void look();
  /// Looks at those that were not there, and marks what has come as made by the run ("made": true),
  /// so that it may be gone when the run is repeated. True if anything has come.
  bool look_for_made();
  /// {"/data/root": …}, as input_record() gives it; null before look(), and where there are no
  /// inputs.
  const nlohmann::ordered_json& record() const { return record_; }
  /// What `before`, an earlier record of the same run, calls made by the run is that still.
  void copy_marks(const nlohmann::ordered_json& before);

  /// Marks one as changed while the run was at work ("changed": true), which no later look can
  /// undo.
  void mark_changed(const std::string& pointer) { record_[pointer]["changed"] = true; }

  struct Change {
    InputChange change;
    bool has_only_more = false;  ///< files have come, and those that were there are as they were
  };
  /// Of those inputs that are `wanted`; empty: of all.
  std::vector<Change> changes(
      const std::function<bool(const std::string& pointer)>& wanted = {}) const;

 private:
  std::vector<InputPath> paths_;
  nlohmann::ordered_json record_;
  std::vector<std::vector<std::uint64_t>> files_;  // by input: InputLook::files
};

}  // namespace runner
