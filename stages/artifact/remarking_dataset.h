#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "stages/artifact/dataset.h"

namespace runner {
class RunContext;
}

namespace stages {

/// A Dataset that looks at its samples as they are read, and remarks on those that are not what it expects.
class RemarkingDataset {
 public:
  virtual ~RemarkingDataset() = default;

  /// What is remarked on samples that have been read.
  struct Remarks {
    std::int64_t count = 0;               ///< of samples
    std::vector<std::string> unreported;  ///< the names of those that no earlier call has returned
    std::string verdict;                  ///< what is wrong with each: "not look like a photograph of a retina"
    std::string metric;                   ///< that counts them: "data/strangers"
  };
  /// On the samples `indices`. Thread-safe.
  virtual Remarks take_remarks(std::span<const std::int64_t> indices) const = 0;
};

/// Reports in one line the unreported remarks on `datasets`, all samples of which have been read, and counts all of
/// them in their metric, if there are any. Null datasets, and those that remark on nothing, have none. Reports nothing
/// in a smoke run.
void report_remarks(std::initializer_list<const Dataset*> datasets, std::int64_t step, runner::RunContext& context);

}  // namespace stages
