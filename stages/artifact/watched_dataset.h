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

/// A dataset of pictures that are to show one thing, each of which is looked at when it is read. It is one Dataset
/// beside that.
class WatchedDataset {
 public:
  virtual ~WatchedDataset() = default;

  /// Pictures that have been read and look like something else.
  struct Strangers {
    std::int64_t count = 0;
    std::vector<std::string> untold;  ///< the names of those that this was not asked about before, by anybody
    std::string what;                 ///< what they do not look like: "a photograph of a retina"
  };
  /// Of the samples `indices`. Thread-safe.
  virtual Strangers take_strangers(std::span<const std::int64_t> indices) const = 0;
};

/// Says in one line which of the samples of `datasets`, all of which have been read, look like something else and were
/// not named before, and counts in the metric data/strangers those that look so, if there are any. Null datasets, and
/// those that nobody watches, have none. Says nothing in a smoke run.
void tell_strangers(std::initializer_list<const Dataset*> datasets, std::int64_t step, runner::RunContext& context);

}  // namespace stages
