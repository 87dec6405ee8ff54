#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "stages/train/observed_training.h"

namespace stages {

/// Observes one of two runs to be compared tensor by tensor. The first run writes its tensors to
/// a file, and the second run compares its tensors with that file:
///
///   const auto check = DeterminismCheck::writing("tensors", 3);     check->finish();
///   const auto check = DeterminismCheck::comparing("tensors", 3);   check->finish();
///
/// The file contains the digests of all tensors and, as long as they fit into `limit` bytes, the
/// tensors themselves, so that the size of a difference can be reported.
class DeterminismCheck : public StepObserver {
 public:
  static constexpr std::int64_t kLimit = std::int64_t{1} << 30;

  /// Creates the check for the first run. `file` must not exist yet. Throws runner::WriteError if
  /// it cannot be written.
  static std::unique_ptr<DeterminismCheck> writing(const std::filesystem::path& file,
                                                   std::int64_t steps, std::int64_t limit = kLimit);
  static std::unique_ptr<DeterminismCheck> comparing(const std::filesystem::path& file,
                                                     std::int64_t steps);
  /// Creates the check for ranks other than rank 0, which only train as many steps as rank 0.
  static std::unique_ptr<DeterminismCheck> following(std::int64_t steps);

  /// True once a difference has been found. Continuing is then pointless.
  virtual bool has_difference() const = 0;
  /// Returns {"steps", "tensors", "difference"}: the number of steps seen, the number of distinct
  /// tensors by place and name, and the first difference. "difference" is null or {"node", "step",
  /// "phase", "tensor", "largest"}. "largest" is the largest difference between two numbers, "nan"
  /// if only one of them is NaN, and null if it is unknown.
  virtual nlohmann::ordered_json finish() = 0;
};

}  // namespace stages
