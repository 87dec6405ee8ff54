#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/worker/requests.h"

namespace stages {

/// How long the ranks of a training take to sum a message on this machine.
struct SumSpeed {
  std::int64_t bytes = 0;
  double seconds = 0;  ///< the median over some sums
};

/// Measures sums of a number, of a MiB and of a bucket of gradients over `ranks` ranks, which are
/// threads of this process. They talk as the processes of a training do.
std::vector<SumSpeed> measure_sums(int ranks);

/// The request "check_ranks": {"ranks"} → {"ranks", "sums": [{"bytes", "seconds"}]}.
runner::Result<nlohmann::ordered_json> answer_check_ranks(const nlohmann::ordered_json& request,
                                                          const RequestContext& context);

}  // namespace stages
