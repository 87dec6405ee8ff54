#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/worker/requests.h"

namespace stages {

/// The time that ranks take to sum a message on this machine when they train together.
struct SumSpeed {
  std::int64_t bytes = 0;
  double seconds = 0;  ///< the median over several all-reduce operations
};

/// Measures how long `ranks` ranks take to sum a single number, one MiB and a bucket of gradients.
/// The ranks are threads of this process, but communicate as in training.
std::vector<SumSpeed> measure_sums(int ranks);

/// Answers the "check_ranks" request: {"ranks"} → {"ranks", "sums": [{"bytes", "seconds"}]}.
runner::Result<nlohmann::ordered_json> answer_check_ranks(const nlohmann::ordered_json& request,
                                                          const RequestContext& context);

}  // namespace stages
