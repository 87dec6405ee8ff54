#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "stages/train/step_recovery.h"

namespace stages {

/// One of two runs that are to be compared tensor by tensor. The first writes what it sees to a
/// file, the second holds what it sees against that:
///
///   const auto check = DeterminismCheck::writing("tensors", 3);     check->finish();
///   const auto check = DeterminismCheck::comparing("tensors", 3);   check->finish();
///
/// The file has the digest of every tensor, and the tensors themselves as long as they fit in
/// `limit` bytes, so that the size of a difference can be told.
class DeterminismCheck : public StepObserver {
 public:
  static constexpr std::int64_t kLimit = std::int64_t{1} << 30;

  /// `file` must not exist. Throws runner::WriteError where the disk does not take it.
  static std::unique_ptr<DeterminismCheck> writing(const std::filesystem::path& file,
                                                   std::int64_t steps, std::int64_t limit = kLimit);
  static std::unique_ptr<DeterminismCheck> comparing(const std::filesystem::path& file,
                                                     std::int64_t steps);

  /// True once the runs have been seen to differ; there is no use in going on.
  virtual bool has_difference() const = 0;
  /// {"steps", "tensors", "difference"}: how many steps were seen and how many tensors of different
  /// place and name; the first difference is null or {"node", "step", "phase", "tensor",
  /// "largest"}, where "largest" is the largest difference between two numbers, "nan" where only
  /// one is none, null where it is not known.
  virtual nlohmann::ordered_json finish() = 0;
};

}  // namespace stages
