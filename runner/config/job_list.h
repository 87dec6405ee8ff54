#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runner/config/config_files.h"
#include "runner/config/override.h"
#include "runner/error/result.h"

namespace runner {

/// The runs of a sweep: every combination of the values of its dimensions, the last dimension varying fastest, numbered
/// from 0. A dimension is a key with its values, in the order in which keys first appear; a key with one value is a
/// dimension too.
class JobList {
 public:
  static constexpr std::uint64_t kMaxJobs = 10'000;

  /// The options of a group that glob() chooses from are those of `configs`; what is shuffled follows from `seed`.
  /// Of a key that is given twice the last value counts, at the first one's place; where one of the two is a sweep that
  /// is an error, and so are a sweep without values, interval(), a sweep of Hydra's own settings, and more than
  /// kMaxJobs runs.
  static Result<JobList> make(std::span<const Override> overrides, const ConfigFiles& configs, std::uint64_t seed);

  std::uint64_t size() const;
  /// What run `number`, below size(), sets. None of it is a sweep.
  std::vector<Override> operator[](std::uint64_t number) const;

 private:
  struct Dimension {
    std::vector<std::vector<Override>> values;  // what each sets
    bool is_sweep;
    Location where;
  };

  std::vector<Dimension> dimensions_;
};

}  // namespace runner
