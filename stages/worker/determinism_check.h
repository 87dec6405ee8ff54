#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "stages/train/step_recovery.h"

namespace stages {

/// One of two runs that are compared tensor by tensor. The first writes the tensors that it sees to
/// a file; the second compares its tensors with that file:
///
///   const auto check = DeterminismCheck::writing("tensors", 3);     check->finish();
///   const auto check = DeterminismCheck::comparing("tensors", 3);   check->finish();
///
/// The file has the digest of every tensor, and the tensors themselves while they fit in `limit`
/// bytes, so that the size of a difference can be reported.
class DeterminismCheck : public StepObserver {
 public:
  static constexpr std::int64_t kLimit = std::int64_t{1} << 30;

  /// `file` must not exist. Throws runner::WriteError if it cannot be written to disk.
  static std::unique_ptr<DeterminismCheck> writing(const std::filesystem::path& file,
                                                   std::int64_t steps, std::int64_t limit = kLimit);
  static std::unique_ptr<DeterminismCheck> comparing(const std::filesystem::path& file,
                                                     std::int64_t steps);

  /// True once a difference was found; continuing is then pointless.
  virtual bool has_difference() const = 0;
  /// {"steps", "tensors", "difference"}: the number of steps seen, the number of tensors of
  /// different place and name, and the first difference. "difference" is null or {"node", "step",
  /// "phase", "tensor", "largest"}, where "largest" is the largest difference between two numbers,
  /// "nan" if only one of them is NaN, and null if it is unknown.
  virtual nlohmann::ordered_json finish() = 0;
};

}  // namespace stages
